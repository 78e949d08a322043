"""The log and its copies: every entry is there and readable, and every checkpoint is what the entries before it fold into."""

from collections.abc import Iterator
from dataclasses import dataclass

from needlefish.errors import CorruptError, NotFoundError
from needlefish.format.log_entry import (
    CHECKPOINT_PREFIX,
    LATEST_PATH,
    LOG_PREFIX,
    checkpoint_path,
    checkpoint_version,
    decode_state,
    log_path,
)
from needlefish.model.log import LogEntry, TableState
from needlefish.runtime import in_parallel
from needlefish.store import Store
from needlefish.table.verify.report import DAMAGE, Findings, remedy_for, said
from needlefish.timeline import catch_up, fold
from needlefish.timeline.replay import read_entry

_WINDOW = 64
_LOST_ENTRY = "restore the object from a copy; without it older versions cannot be opened"
_LOST_COPY = "delete it: the log holds the same facts"
_OLD_HINT = "nothing: the next commit writes it anew"


def check_log(store: Store, state: TableState) -> Findings:
    """The log up to `state`, its checkpoints, and whether all of it gives `state`."""
    found = Findings()
    copies = _numbered(store, found, state.version)
    hint = _hint(store, found)
    # A clean may be at work on the entries before those that its versions need.
    first = max(_oldest(store), state.cleaned, 0 if hint is None else hint.cleaned)
    folded = copies.get(first - 1) if first else None
    if first and folded is None:
        found.problem(log_path(first - 1), "the object is missing, and no checkpoint stands for it", _LOST_ENTRY)
    if hint is not None and hint.version > state.version:
        _check_ahead(store, state, hint, found)
    replay = _Replay(found=found, copies=copies, hint=hint, folded=folded, broken=bool(first) and folded is None)
    for version, entry in _entries(store, found, first, state.version):
        replay.step(version, entry)
    replay.end(state)
    return found


def _oldest(store: Store) -> int:
    """The number that the log begins with: older entries may have been cleaned once a checkpoint stands for them."""
    for found in store.list(LOG_PREFIX):
        name = found.path.removeprefix(LOG_PREFIX).removesuffix(".json")
        if name.isdigit():
            return int(name)
    return 0


def _numbered(store: Store, found: Findings, until: int) -> dict[int, TableState]:
    """The readable checkpoints by their version."""
    copies: dict[int, TableState] = {}
    paths = [(listed.path, checkpoint_version(listed.path)) for listed in store.list(CHECKPOINT_PREFIX)]
    for path, number in ((path, number) for path, number in paths if number is not None and number <= until):
        try:
            copies[number] = decode_state(store.get(path), path)
        except DAMAGE as error:
            found.problem(path, said(error, path), remedy_for(error, _LOST_COPY))
    return copies


@dataclass(slots=True, kw_only=True)
class _Replay:
    """Folds entry after entry; where one is lost, a checkpoint behind it is the next thing to go on from."""

    found: Findings
    copies: dict[int, TableState]
    hint: TableState | None
    folded: TableState | None
    broken: bool

    def step(self, version: int, entry: LogEntry | None) -> None:
        self.broken = self.broken or entry is None
        if entry is not None and not self.broken:
            self._fold(entry)
        copy = self.copies.get(version)
        if self.broken and copy is not None and copy.version == version:
            self.broken, self.folded = False, copy
        self._compare(checkpoint_path(version), copy, _LOST_COPY)
        if self.hint is not None and self.hint.version == version:
            self._compare(LATEST_PATH, self.hint, _OLD_HINT)

    def _fold(self, entry: LogEntry) -> None:
        path = log_path(entry.version)
        for wrong in _lineage(self.folded, entry):
            self.found.problem(path, wrong, _LOST_ENTRY)
        self.broken = not self.found.guarded(path, _LOST_ENTRY, lambda: setattr(self, "folded", fold(self.folded, entry)))

    def _compare(self, path: str, copy: TableState | None, remedy: str) -> None:
        if copy is not None and not self.broken and copy != self.folded:
            self.found.problem(path, "differs from what the log folds into", remedy)

    def end(self, state: TableState) -> None:
        if not self.broken and self.folded != state:
            words = f"the log folds into another state than the one opened as version {state.version}"
            self.found.problem(log_path(state.version), words, "open the table again")
        if self.hint is not None and self.hint.version < state.version:
            words = f"lags behind: version {self.hint.version} of {state.version}, so that opening reads more entries"
            self.found.note(LATEST_PATH, words, _OLD_HINT)


def _lineage(before: TableState | None, entry: LogEntry) -> Iterator[str]:
    """What an entry says of the versions before it."""
    if entry.prev_max is not None and not 0 <= entry.prev_max < entry.version:
        yield f"says that it was compared against version {entry.prev_max}, which is not before it"
    last = before.last_batch(entry.batch.application) if before and entry.batch else None
    if entry.batch is not None and last is not None and entry.batch.number <= last:
        yield f"has batch {entry.batch.number} of {entry.batch.application!r}, though {last} was there already"


def _entries(store: Store, found: Findings, first: int, last: int) -> Iterator[tuple[int, LogEntry | None]]:
    """Every number with its entry, None where it is missing or damaged."""

    def read(version: int) -> LogEntry | BaseException:
        try:
            entry = read_entry(store, version)
            return entry or NotFoundError(log_path(version))
        except DAMAGE as error:
            return error

    for begin in range(first, last + 1, _WINDOW):
        numbers = range(begin, min(last + 1, begin + _WINDOW))
        for version, entry in zip(numbers, in_parallel(read, numbers), strict=True):
            found.versions += 1
            if isinstance(entry, BaseException):
                found.problem(log_path(version), said(entry, log_path(version)), remedy_for(entry, _LOST_ENTRY))
            yield version, None if isinstance(entry, BaseException) else entry


def _hint(store: Store, found: Findings) -> TableState | None:
    """The hint, if it can be read. Damage is reported, absence only noted."""
    try:
        return decode_state(store.get(LATEST_PATH), LATEST_PATH)
    except NotFoundError:
        found.note(LATEST_PATH, "is missing, so that opening lists the checkpoints", _OLD_HINT)
    except DAMAGE as error:
        found.problem(LATEST_PATH, said(error, LATEST_PATH), remedy_for(error, _OLD_HINT))
    return None


def _check_ahead(store: Store, state: TableState, hint: TableState, found: Findings) -> None:
    """Somebody has committed since `state` was opened."""

    def check() -> None:
        if catch_up(store, state, until=hint.version) != hint:
            raise CorruptError("differs from what the log folds into")

    found.guarded(LATEST_PATH, _OLD_HINT, check)
