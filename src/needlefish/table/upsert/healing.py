"""Forks: what others committed to the same partitions while a change was made is compared before the change commits.

Only chunksets that are new since are looked at. Who commits later wins, unless `order_by` says otherwise. A row of the change
that came too late is so no more once somebody has hidden the row that outranked it.
"""

from collections.abc import Callable, Iterable

from needlefish.errors import ConflictError
from needlefish.format.skips_record import Skips
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.store import Store
from needlefish.table.since import added_since, chunksets_since, hidden_since, removed_since
from needlefish.table.upsert.marks import Marks

# Every round means that somebody else committed meanwhile; compared are only the few chunksets of that commit.
MOST_ROUNDS = 100


class Healing:
    """One change, over all attempts to commit it. Remembers up to which version it has compared.

    `concerns` says whether a new chunkset may hold what the change hides, `compare` looks for it in a state that has new
    chunksets alone. `marks` begin with those that the base gave and that others may overturn.
    """

    def __init__(
        self,
        store: Store,
        base: TableState,
        concerns: Callable[[ChunksetInfo], bool],
        compare: Callable[[TableState], Marks],
        marks: Marks | None = None,
    ) -> None:
        self._store = store
        self._concerns = concerns
        self._compare = compare
        self._upto = base
        self.marks = marks or Marks()
        self.rounds = 0

    def __call__(self, base: TableState, newest: TableState) -> Iterable[Skips]:
        """The skips that are missing, for a commit on top of `newest`."""
        if newest.version > self._upto.version:
            self._catch_up(newest)
            self._upto = newest
        return self.marks.skips

    def _catch_up(self, newest: TableState) -> None:
        self.marks = self.marks.without_files(removed_since(self._store, self._upto, newest))
        outranking = self.marks.outranking
        if outranking:
            self.marks = self.marks.revived(hidden_since(self._store, self._upto, newest, outranking))
        if any(map(self._concerns, chunksets_since(self._store, self._upto, newest))):
            self._count_round()
            self.marks = self.marks.plus(self._compare(added_since(self._store, self._upto, newest)))

    def _count_round(self) -> None:
        self.rounds += 1
        if self.rounds > MOST_ROUNDS:
            raise ConflictError(
                f"{self._store.uri}: others committed to the same partitions {MOST_ROUNDS} times while this commit was made; retry when fewer writers share them"
            )
