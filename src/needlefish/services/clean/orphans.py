"""Orphans: objects with our names that nothing needs and nobody is going to need.

First they are listed, then the log is read to its end. A claim is in the log before its attempt puts anything, so that the attempt
of a listed object is claimed in that state, or over for ever; then only what a version names counts. Plans and first beats are put
before the log speaks of them: those must also be older than a heartbeat takes to expire.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from needlefish.errors import CorruptError
from needlefish.model.log import TableState
from needlefish.services.clean.names import AREAS, Area, Named, named
from needlefish.services.clean.needed import Needed
from needlefish.services.clean.options import Rule
from needlefish.services.clean.result import Kind, Removal
from needlefish.store import ObjectInfo, Store
from needlefish.timeline import catch_up

# Objects looked at between two readings of the log.
_BATCH = 100_000

_KINDS: dict[Area, Kind] = {
    "file": "orphan file",
    "run": "orphan run",
    "work file": "orphan work file",
    "plan": "orphan plan",
    "heartbeat": "orphan heartbeat",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    info: ObjectInfo
    named: Named


@dataclass(kw_only=True)
class Search:
    """One search for orphans. `dead` are the attempts of instants that a dry run takes for rolled back."""

    store: Store
    needed: Needed
    rule: Rule
    now_ms: int
    dead: frozenset[str] = frozenset()

    def batches(self, areas: tuple[Area, ...] = ("file", "run", "work file", "plan", "heartbeat")) -> Iterator[list[Removal]]:
        """All orphans, some at a time: each may be deleted as soon as it is known."""
        for prefix in (prefix for prefix, (area, _) in AREAS.items() if area in areas):
            listed = self._candidates(prefix)
            while some := list(islice(listed, _BATCH)):
                # After the listing, never before it: see above.
                self._refresh()
                yield from self._orphans(some)

    def _candidates(self, prefix: str) -> Iterator[_Candidate]:
        for info in self.store.list(prefix):
            found = named(prefix, info.path)
            if found is not None and self.now_ms - info.modified_ms >= self._least_age_ms(found):
                yield _Candidate(info=info, named=found)

    def _least_age_ms(self, found: Named) -> int:
        if found.area in ("plan", "heartbeat"):
            return self.rule.early_ms
        return self.rule.unnamed_ms if found.owner is None else self.rule.orphan_ms

    def _refresh(self) -> None:
        newest = catch_up(self.store, self.needed.state)
        assert newest is not None, "the log of an open table never becomes empty"
        if newest.cleaned != self.needed.state.cleaned:
            raise CorruptError(f"{self.store.uri}: another clean came to its end meanwhile")
        self.needed.move_on(newest)

    def _orphans(self, some: list[_Candidate]) -> Iterator[list[Removal]]:
        owners = owners_in(self.needed.state) - self.dead
        free = [one for one in some if one.named.owner not in owners and one.info.path not in self.needed.runs]
        files = [one for one in free if one.named.area == "file"]
        unneeded = self.needed.unneeded_files([one.info.path for one in files])
        kept = {one.info.path for one, orphan in zip(files, unneeded, strict=True) if not orphan}
        gone = [self._removal(one) for one in free if one.info.path not in kept]
        if gone:
            yield gone

    def _removal(self, one: _Candidate) -> Removal:
        owner = one.named.owner
        if owner is None:
            why = "no version names it, and it is older than the grace period"
        elif owner in self.dead:
            why = f"its attempt {owner} is dead"
        elif one.named.area == "plan":
            why = "the plan is over, or was never requested"
        else:
            why = "its attempt is over, and no version names it"
        return Removal(path=one.info.path, bytes=one.info.size, kind=_KINDS[one.named.area], why=why)


def owners_in(state: TableState) -> set[str]:
    """Instants that are not over, and their attempts."""
    attempts = {found.claim.attempt for found in state.instants if found.claim is not None}
    return {str(owner) for owner in (*attempts, *(found.id for found in state.instants))}
