"""What a loop tells of: one event for each thing that happened."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

# done: with figures. first: somebody else was, which is normal. undone: stopped before its end. away: the store is. failed: all else.
Outcome = Literal["done", "first", "undone", "away", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One happening at one table. `facts` are figures of what was done, `reason` is why it was not."""

    timestamp_ms: int
    table: str
    action: str
    outcome: Outcome
    facts: Mapping[str, object] = field(default_factory=dict)
    reason: str | None = None
    # Of away and failed: when the table is looked at again.
    wait_seconds: float | None = None


class Audience(Protocol):
    """Who listens."""

    def tell(self, event: Event) -> None: ...

    def doing(self, table: str, what: str) -> AbstractContextManager[None]:
        """While something takes its time."""
        ...
