"""A verification from end to end: the log, every run, every file; damage anywhere is a finding, never the end."""

from collections.abc import Iterator
from functools import partial

from needlefish.format.log_entry import LOG_PREFIX, ROOT, log_path
from needlefish.model.log import Totals
from needlefish.runtime import SYSTEM, Runtime, in_parallel
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify.entries import recorded_files
from needlefish.table.verify.file_check import check_file
from needlefish.table.verify.log_check import check_log
from needlefish.table.verify.points_check import PointsCheck
from needlefish.table.verify.report import DAMAGE, Findings, Verification, said
from needlefish.table.verify.run_check import check_run
from needlefish.table.verify.skips_check import check_skips
from needlefish.table.verify.visible_check import check_visible_keys

_RUNS_AT_ONCE = 16


def verify_table(snapshot: Snapshot, *, data: bool = True, runtime: Runtime = SYSTEM) -> Verification:
    """Compares everything the table says with everything it has. Without `data` no rows are read."""
    started = runtime.clock.monotonic()
    total = Findings()
    for found in findings(snapshot, data=data):
        total.add(found)
    return Verification(
        uri=snapshot.store.uri,
        version=snapshot.state.version,
        data_read=data,
        versions=total.versions,
        runs=total.runs,
        files=total.files,
        rows=total.rows,
        skipped=total.skipped,
        bytes=total.bytes,
        problem_count=total.problem_count,
        note_count=total.note_count,
        problems=tuple(total.problems),
        notes=tuple(total.notes),
        seconds=runtime.clock.monotonic() - started,
    )


def findings(snapshot: Snapshot, *, data: bool) -> Iterator[Findings]:
    """What each check found, as it is done. `snapshot` has readers of its own: nothing that is remembered is believed."""
    yield _log(snapshot)
    runs = snapshot.state.runs
    for first in range(0, len(runs), _RUNS_AT_ONCE):
        yield from in_parallel(partial(check_run, snapshot.store), runs[first : first + _RUNS_AT_ONCE])
    yield from (check_skips(snapshot, ref) for ref in snapshot.state.runs_of("skips"))
    yield from _files(snapshot, data=data)
    if data:
        yield check_visible_keys(snapshot)


def _log(snapshot: Snapshot) -> Findings:
    found = Findings()
    found.guarded(LOG_PREFIX, "verify again", lambda: found.add(check_log(snapshot.store, snapshot.state)))
    return found


def _files(snapshot: Snapshot, *, data: bool) -> Iterator[Findings]:
    """Files in groups, each group in parallel; damaged runs have been named already, and only widen what is not covered."""
    unreadable: list[str] = []
    counted = Totals()
    check = partial(check_file, snapshot.store, snapshot.state.definition, data=data, points=PointsCheck(snapshot=snapshot))
    ending = Findings()
    try:
        for group in recorded_files(snapshot, unreadable.append):
            for found in in_parallel(check, group):
                counted = counted.plus(Totals(rows=found.rows, files=found.files, bytes=found.bytes, skipped=found.skipped))
                yield found
    except DAMAGE as error:
        # A record that no reader can make sense of, in a block whose checksum fits.
        unreadable.append(str(error))
        ending.problem(f"{ROOT}metadata/", said(error, ""), "rebuild 'files', 'column_stats' and 'bloom_filters'")
    if counted != snapshot.state.totals and not unreadable:
        words = f"the log counts {_text(snapshot.state.totals)}, but the runs list {_text(counted)}"
        ending.problem(log_path(snapshot.state.version), words, "rebuild 'files'")
    yield ending


def _text(totals: Totals) -> str:
    hidden = f" ({totals.skipped} hidden)" if totals.skipped else ""
    return f"{totals.files} files, {totals.rows} rows{hidden} and {totals.bytes} bytes"
