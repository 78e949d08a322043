"""From entries to state: pure, so that every reader of the same entries holds the same table."""

from dataclasses import replace

from needlefish.errors import CorruptError
from needlefish.format.log_entry import log_path
from needlefish.model.log import FORMAT, Batch, LogEntry, RunRef, TableState
from needlefish.timeline.instants import fold_instants


def fold(state: TableState | None, entry: LogEntry) -> TableState:
    """The state after `entry`."""
    path = log_path(entry.version)
    if state is None:
        return _created(entry, path)
    assert entry.version == state.version + 1, f"{path} does not follow version {state.version}"
    removed = set(entry.runs_removed)
    if not removed <= {run.id for run in state.runs}:
        raise CorruptError(f"{path}: removes runs that version {state.version} does not have: {sorted(removed)}")
    return replace(
        state,
        version=entry.version,
        timestamp_ms=entry.timestamp_ms,
        definition=entry.definition or state.definition,
        runs=tuple(run for run in state.runs if run.id not in removed) + _stamped(entry),
        totals=state.totals.plus(entry.added),
        batches=_batches(state.batches, entry.batch),
        instants=fold_instants(state.instants, entry),
        oldest=max(state.oldest, entry.oldest or 0),
        cleaned=max(state.cleaned, entry.oldest or 0) if entry.action == "clean" else state.cleaned,
    )


def _created(entry: LogEntry, path: str) -> TableState:
    if entry.version != 0 or entry.definition is None:
        raise CorruptError(f"{path}: the log does not begin with the creation of a table")
    return TableState(
        format=FORMAT,
        version=0,
        timestamp_ms=entry.timestamp_ms,
        definition=entry.definition,
        runs=_stamped(entry),
        totals=entry.added,
        batches=_batches((), entry.batch),
    )


def _batches(known: tuple[Batch, ...], new: Batch | None) -> tuple[Batch, ...]:
    """One for each application, the greatest number of those that were committed."""
    if new is None:
        return known
    numbers = {batch.application: batch.number for batch in known}
    numbers[new.application] = max(new.number, numbers.get(new.application, new.number))
    return tuple(Batch(application=application, number=number) for application, number in sorted(numbers.items()))


def _stamped(entry: LogEntry) -> tuple[RunRef, ...]:
    return tuple(run if run.version is not None else replace(run, version=entry.version) for run in entry.runs_added)
