"""How long things are kept: the table's own properties, unless a call says otherwise."""

from dataclasses import dataclass

from needlefish.errors import InvalidError
from needlefish.model.definition import Properties

# Objects whose names do not say which attempt made them are judged by their age alone, and some writers take their time.
_UNNAMED_SECONDS = 3_600.0
# No put takes longer than this, from the last look at what it builds on to its end.
_PUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanOptions:
    """What to clean. Absent means the property of the table with the same name."""

    retained_versions: int | None = None
    retained_seconds: float | None = None
    grace_seconds: float | None = None
    # Looking for orphans lists all that the table has, which costs a request for each 1,000 files.
    orphans: bool = True
    dry_run: bool = False

    def __post_init__(self) -> None:
        versions = self.retained_versions
        if versions is not None and (isinstance(versions, bool) or not isinstance(versions, int) or versions < 1):
            raise InvalidError(f"retained_versions is {versions!r}; give a whole number from 1 up, or leave it out")
        for name in ("retained_seconds", "grace_seconds"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
                raise InvalidError(f"{name} is {value!r}; give a number of seconds at or above zero, or leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The options together with the table's properties. Ages are in milliseconds of the store's time."""

    versions: int
    # How old the entry of the oldest version that stays must be.
    version_ms: int
    # How old an orphan must be whose attempt is known to be over, and one that says nothing of its attempt.
    orphan_ms: int
    unnamed_ms: int
    # What is put before the log speaks of it: the first beat, a plan.
    early_ms: int
    # What a put that is under way may still build on, or be: entries that are nobody's any more, unfinished local writes.
    put_ms: int


def rule_of(options: CleanOptions, properties: Properties) -> Rule:
    """What counts in this clean."""
    versions = properties.retained_versions if options.retained_versions is None else options.retained_versions
    retained = properties.retained_seconds if options.retained_seconds is None else options.retained_seconds
    grace = properties.grace_seconds if options.grace_seconds is None else options.grace_seconds
    expiry = properties.heartbeat_seconds * properties.heartbeats_missed
    return Rule(
        versions=versions,
        version_ms=_ms(max(retained, grace)),
        orphan_ms=_ms(grace),
        unnamed_ms=_ms(grace if options.grace_seconds is not None else max(grace, _UNNAMED_SECONDS)),
        early_ms=_ms(max(grace, expiry)),
        put_ms=_ms(max(grace, expiry, _PUT_SECONDS)),
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
