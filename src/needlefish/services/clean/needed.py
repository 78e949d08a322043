"""What versions need: the runs they name and the files that these name. Whatever is not among it may be an orphan.

Files are remembered as 64 bits of a hash each, 8 MB for a million of them. Two paths with the same hash would at worst leave an orphan.
"""

from collections.abc import Iterable

import numpy as np
import xxhash
from numpy.typing import NDArray

from needlefish.format.run import path_of
from needlefish.index import newest
from needlefish.index.run_reader import RunReader
from needlefish.model.log import RunRef, TableState
from needlefish.services.clean.retired import Retired, known_tombstones, paths_of
from needlefish.store import Store
from needlefish.table.since import entries_between

Hashes = NDArray[np.uint64]


class Needed:
    """Of all versions from the last clean up to `state`, which moves on with the log."""

    def __init__(self, store: Store, state: TableState, retired: Iterable[Retired]) -> None:
        self._store = store
        self.state = state
        self.runs = {path_of(run) for run in state.runs}
        self._files: Hashes = np.empty(0, np.uint64)
        self._keep_live(state.runs_of("files"))
        for one in retired:
            self._keep_retired(one)

    def move_on(self, state: TableState) -> None:
        """Adds what was committed since."""
        for entry in entries_between(self._store, self.state, state):
            self.runs |= {path_of(run) for run in entry.runs_added}
            # Merges name nothing new.
            for run in entry.runs_added if entry.action != "merge" else ():
                if run.kind == "files":
                    self._keep_live([run])
        self.state = state

    def unneeded_files(self, paths: list[str]) -> NDArray[np.bool_]:
        """Which of these no version names."""
        wanted = _hashes(paths)
        at = np.searchsorted(self._files, wanted)
        known = np.zeros(len(wanted), np.bool_)
        inside = at < len(self._files)
        known[inside] = self._files[at[inside]] == wanted[inside]
        return ~known

    def _keep_retired(self, one: Retired) -> None:
        self.runs |= {path_of(run) for run in one.runs}
        self._add([_hashes(list(known_tombstones(self._store, self.state, one).values()))])
        if one.action == "rebuild":
            # What was lost to the newest version is still a file of the older ones.
            self._keep_live([run for run in one.runs if run.kind == "files"])

    def _keep_live(self, runs: Iterable[RunRef]) -> None:
        records = newest.scan(self._store, [RunReader(run) for run in runs])
        self._add([_hashes(paths_of(batch)) for batch in records])

    def _add(self, parts: list[Hashes]) -> None:
        self._files = np.unique(np.concatenate([self._files, *parts]))


def _hashes(paths: list[str]) -> Hashes:
    return np.fromiter((xxhash.xxh64_intdigest(path.encode()) for path in paths), np.uint64, len(paths))
