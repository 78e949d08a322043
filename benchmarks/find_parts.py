"""What a find by key is made of: `python -m benchmarks.find_parts`; the result goes to benchmarks/results/find_parts.json.

Every find meets a file that the handle has not read yet, as most finds among very many files do. In turns with it the same file is
read, its footer parsed and the granule decoded with nothing of ours around them: their sum is the bound, the rest is Python.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

import needlefish as nf
from benchmarks.page_cache import PageCache
from benchmarks.peers import Place
from benchmarks.peers.needlefish import Needlefish
from benchmarks.record import console, keep, machine
from benchmarks.workloads import WORKLOADS, Sizes

# Finds that only warm the process up.
_WARM_UPS = 60
# What the probe of an index run reads: a page, and the record of a granule.
_INDEX_BYTES = (4096, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Medians in microseconds."""

    find: float
    absent: float
    # Opening files and reading what the find reads, with a warm page cache.
    reads: float
    footer: float
    decode: float

    @property
    def bound(self) -> float:
        return self.reads + self.footer + self.decode


def measure(table: nf.Table, folder: Path, keys: Sequence[str], absent: Sequence[str]) -> Parts:
    """One of each for every key; the parts are those of a file of the table, another one each time."""
    index = max((folder / "_needlefish" / "index").rglob("*"), key=lambda path: path.stat().st_size)
    times: dict[str, list[float]] = {name: [] for name in Parts.__dataclass_fields__}
    for key, other, path in zip(keys, absent, sorted((folder / "data").rglob("*.parquet")), strict=True):
        times["find"].append(_taken(partial(table.find, request_id=key)))
        times["absent"].append(_taken(partial(table.find, request_id=other)))
        data = path.read_bytes()
        footer = data[-int.from_bytes(data[-8:-4], "little") - 8 :]
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, page_checksum_verification=True)
        group = file.metadata.row_group(0)
        granule_bytes = sum(group.column(place).total_compressed_size for place in range(group.num_columns))
        reads = [*((index, size) for size in _INDEX_BYTES), (path, len(footer)), (path, granule_bytes)]
        times["reads"].append(_taken(partial(_read_all, reads)))
        times["footer"].append(_taken(lambda footer=footer: pq.ParquetFile(pa.BufferReader(footer))))  # type: ignore[misc]
        times["decode"].append(_taken(partial(file.read_row_groups, [0], use_threads=False)))
    return Parts(**{name: round(float(np.median(found[_WARM_UPS:])) * 1e6, 1) for name, found in times.items()})


def _taken(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _read_all(reads: Sequence[tuple[Path, int]]) -> None:
    for path, size in reads:
        handle = os.open(path, os.O_RDONLY)
        os.pread(handle, size, 0)
        os.close(handle)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--out", default="find_parts", help="the name of the result")
    given = parser.parse_args(words)
    workload = WORKLOADS["requests"](Sizes(files=given.files, rows=given.rows))
    before = machine()
    with tempfile.TemporaryDirectory(prefix="needlefish-parts-") as name:
        folder = Path(name)
        Needlefish(workload, Place(shared=str(folder / "none"), own=name)).load()
        keys, absent = ([str(key[0]) for key in found] for found in (workload.present_keys(given.files), workload.absent_keys(given.files)))
        with PageCache(folder) as page_cache:
            page_cache.hold()
            parts = measure(nf.Table.open(name), folder, keys, absent)
    path = keep(given.out, {"files": given.files, "rows_per_file": given.rows, "microseconds": asdict(parts), "bound": parts.bound}, before)
    table = Table("part", "microseconds", title="A find by key in a file that was not read before")
    for what, microseconds in {**asdict(parts), "bound: reads, footer and decode": parts.bound}.items():
        table.add_row(what, f"{microseconds:,.0f}")
    console().print(table)
    console().print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
