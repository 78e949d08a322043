"""Upsert beside delta-rs merge, PyIceberg upsert and Lance merge_insert: `python -m benchmarks.upsert --files 1000 --rows 20000`.

One row in a hundred is replaced and a quarter as many are new: 200,000 and 50,000 of 20 million by default. Each peer loads in
one process and upserts in another, alone on the machine, so that time and peak memory are those of the upsert and its own.
The result goes to benchmarks/results/upsert.json. Exits with 1 when a peer that answered has wrong rows afterwards.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from benchmarks.answers import Answer, Ask, canonical_rows
from benchmarks.compare import arguments
from benchmarks.peers import Place, chosen_peers, setup_of
from benchmarks.peers.shared_files import write_shared
from benchmarks.record import console, keep, machine
from benchmarks.seats import ProcessSeat, Seat
from benchmarks.workloads import WORKLOADS, Sizes, Workload
from benchmarks.workloads.base import UPDATES_PER_INSERT

WRITERS = "needlefish,deltalake,pyiceberg,lance-btree"
_CHECKED = 200
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows to upsert, on disk; `sample` are some of them, to look for afterwards."""

    path: Path
    sample: pa.Table
    inserts: int

    @property
    def bytes(self) -> int:
        return self.path.stat().st_size


def make_batch(workload: Workload, share: float, number: int, folder: Path) -> Batch:
    rows = workload.batch(share, number)
    path = folder / f"batch-{number}.parquet"
    pq.write_table(rows, path, compression="zstd")
    updates = max(UPDATES_PER_INSERT, round(workload.sizes.total * share))
    return Batch(path=path, sample=rows.slice(0, _CHECKED), inserts=len(rows) - updates)


def measure(name: str, workload: Workload, batches: Sequence[Batch], folder: Path, limit_seconds: float) -> dict[str, object]:
    """One peer from empty to upserted; what it kept is gone afterwards."""
    place = Place(shared=str(folder / "shared"), own=str(folder / name))
    try:
        loaded = _alone(name, workload, place, limit_seconds, lambda seat: seat.ask(Ask(verb="load")))
        if loaded.status != "ok":
            return {"status": loaded.status, "reason": f"load: {loaded.reason}"}
        runs = _alone(name, workload, place, limit_seconds, lambda seat: _upserts(seat, workload, batches))
        return {"setup": setup_of(name), "load_seconds": round(loaded.seconds, 2), **runs}
    finally:
        shutil.rmtree(place.own, ignore_errors=True)


def _alone(name: str, workload: Workload, place: Place, limit_seconds: float, work: Callable[[Seat], R]) -> R:
    seat = ProcessSeat(name, workload, place, limit_seconds)
    try:
        return work(seat)
    finally:
        seat.leave()


def _upserts(seat: Seat, workload: Workload, batches: Sequence[Batch]) -> dict[str, object]:
    """Every batch once, in turn: the first meets a cold process, the later ones a table that has changed already."""
    opened = seat.ask(Ask(verb="open"))
    if opened.status != "ok":
        return {"status": opened.status, "reason": f"open: {opened.reason}"}
    runs: list[dict[str, object]] = []
    for batch in batches:
        found = seat.ask(Ask(verb="upsert", argument=str(batch.path)))
        if found.status != "ok":
            return {"status": found.status, "reason": found.reason, "runs": runs}
        runs.append(_run(found, batch))
    return {"status": "ok", "right": _right(seat, workload, batches), "runs": runs}


def _run(found: Answer, batch: Batch) -> dict[str, object]:
    return {
        "seconds": round(found.seconds, 3),
        "written_bytes": found.written_bytes,
        "batch_bytes": batch.bytes,
        "peak_bytes": found.peak_bytes,
        "peaks": found.peaks,
    }


def _right(seat: Seat, workload: Workload, batches: Sequence[Batch]) -> bool:
    """As many rows as there should be, and the last batch's rows as they were given."""
    expected = workload.sizes.total + sum(batch.inserts for batch in batches)
    scanned = seat.ask(Ask(verb="scan", argument=workload.scanned))
    sample = canonical_rows(batches[-1].sample, workload)
    keys = [tuple(row[name] for name in workload.key) for row in sample.select(list(workload.key)).to_pylist()]
    found = seat.ask(Ask(verb="find", argument=keys))
    return scanned.count == expected and found.rows is not None and bool(found.rows.equals(sample))


def shown(results: dict[str, dict[str, object]]) -> Table:
    table = Table("peer", "run", "seconds", "written MB", "times the batch", "peak MB", title="Upsert of 1% updates and 0.25% inserts")
    for name, result in results.items():
        for number, run in enumerate(result.get("runs", ()), 1):  # type: ignore[arg-type]
            written = f"{run['written_bytes'] / 1e6:,.1f}", f"{run['written_bytes'] / run['batch_bytes']:.1f}"
            table.add_row(name, str(number), f"{run['seconds']:.2f}", *written, f"{run['peak_bytes'] / 1e6:,.0f}")
        if result["status"] != "ok":
            table.add_row(name, "", f"{result['status']}: {result['reason']}"[:70])
    return table


def main(words: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__)
    parser.set_defaults(peers=chosen_peers(WRITERS))
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="requests")
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args(words)
    workload = WORKLOADS[given.workload](Sizes(files=given.files, rows=given.rows))
    before = machine()
    folder = Path(tempfile.mkdtemp(prefix="needlefish-upsert-", dir=given.folder))
    try:
        batches = [make_batch(workload, given.share, number, folder) for number in range(given.runs)]
        write_shared(workload, Place(shared=str(folder / "shared"), own=str(folder / "none")))
        results = {name: measure(name, workload, batches, folder, given.limit_seconds) for name in given.peers}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    sizes = {"workload": workload.name, "files": given.files, "rows_per_file": given.rows, "share": given.share}
    path = keep(given.out or "upsert", {**sizes, "peers": results}, before)
    console().print(shown(results))
    wrong = [name for name, result in results.items() if result.get("right") is False]
    console().print(f"{'rows right' if not wrong else 'WRONG ROWS: ' + ', '.join(wrong)}; written to {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
