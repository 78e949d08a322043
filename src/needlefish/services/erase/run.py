"""An erasure from beginning to end: delete, rewrite files, rewrite runs, clean, prove. Each step is a commit of its own.

A crash on the way leaves rows deleted and the rest to be done: erasing the same keys again goes on from there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.clean import CleanOptions, clean
from needlefish.services.clean.options import rule_of
from needlefish.services.erase.proof import Proof, old_objects
from needlefish.services.erase.report import ErasureReport
from needlefish.services.erase.rewriting import Workers, compact_away
from needlefish.services.erase.scrub import scrub
from needlefish.services.erase.search import find_holders, still_there
from needlefish.store import RetriedStore
from needlefish.table.upsert.run import ChangeOptions, Jobs, delete_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseOptions:
    """`expire` gives up all older versions at once; readers of them get `grace_seconds`, the table's own unless given."""

    expire: bool = False
    grace_seconds: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.expire, bool):
            raise InvalidError(f"expire is {self.expire!r}; give True to give up older versions, or leave it out")
        CleanOptions(grace_seconds=self.grace_seconds)

    @property
    def cleaning(self) -> CleanOptions:
        if self.expire:
            return CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=self.grace_seconds)
        return CleanOptions(grace_seconds=self.grace_seconds)


def erase_rows(
    store: RetriedStore, state: TableState, jobs: Jobs, workers: Workers, options: EraseOptions, runtime: Runtime = SYSTEM
) -> tuple[TableState, ErasureReport]:
    """Erases the rows of all keys that `jobs` have; the state after it, and what is proved."""
    started = runtime.clock.monotonic()
    state, deleted = delete_rows(store, state, ChangeOptions(), jobs, runtime)
    before = find_holders(store, state, jobs, runtime)
    state = compact_away(store, state, before.live, workers, runtime)
    state = scrub(store, state, runtime)
    after = find_holders(store, state, jobs, runtime)
    old = old_objects(store, state, still_there(store, state), before.plus(after))
    state, cleaned = clean(store, state, options.cleaning, runtime)
    rule = rule_of(options.cleaning, state.definition.properties)
    places = Proof(store, state, rule, runtime).places(before, after, old)
    return state, ErasureReport(
        version=state.version,
        keys=before.keys,
        deleted=deleted.deleted,
        files=len(before.all),
        places=tuple(places),
        notes=(*cleaned.notes, *(_advice(options, state) if any(place.remains for place in places) else ())),
        seconds=runtime.clock.monotonic() - started,
    )


def _advice(options: EraseOptions, state: TableState) -> Iterator[str]:
    how = "with retained_versions=1 and retained_seconds=0" if options.expire else "as the table's properties say"
    yield f"what remains a clean removes {how} once it is time"
    for found in state.instants:
        if found.claim is not None:
            yield f"{found.action} {found.id} by {found.claim.owner} reads version {found.claim.base}, which stays until it ends"
