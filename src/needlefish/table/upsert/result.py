"""What upserts and deletes say of themselves."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertResult:
    """What an upsert did. `version` is the table's after it; a batch that was there already makes no new one.

    `inserted` and `replaced` count rows that are visible now, `late` rows that a stored one outranks by `order_by`, and
    `duplicates` rows whose key came again. `healed` counts rounds of comparing with what others committed meanwhile.
    """

    version: int
    inserted: int = 0
    replaced: int = 0
    late: int = 0
    deleted: int = 0
    duplicates: int = 0
    repeated: bool = False
    files: int = 0
    bytes: int = 0
    requests: int = 0
    healed: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult:
    """What a delete did. `absent` counts keys that had no row."""

    version: int
    deleted: int = 0
    absent: int = 0
    duplicates: int = 0
    repeated: bool = False
    requests: int = 0
    healed: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
