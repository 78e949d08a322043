"""Hash, insert and check of split-block filters, beside pyarrow's write of the same column and beside plain NumPy.

`python -m benchmarks.bloom [--rows N]` from the root of the repository; the result goes to benchmarks/results/bloom.json.
Times are the best of several runs in one process: the machine's noise only ever adds.
"""

import argparse
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.table import Table

from benchmarks.record import console, keep, machine
from needlefish.filters import split_block_lanes, xxh64
from needlefish.filters.compiling import BUDGET, PRICE_NS
from needlefish.filters.hash import hash_array, hash_value
from needlefish.filters.plain_values import encode_plain
from needlefish.filters.split_block import SplitBlockFilter

RATE = 0.01
RUNS = 7
# The targets: hash and insert as a share of pyarrow's write of the same column.
TARGETS = {"int64": 0.25, "string of 32": 0.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Milliseconds for one column; `share` is hash and insert together, as a part of pyarrow's write."""

    column: str
    rows: int
    hash_ms: float
    insert_ms: float
    check_ms: float
    check_absent_ms: float
    plain_hash_ms: float
    plain_insert_ms: float
    plain_check_ms: float
    pyarrow_write_ms: float
    pyarrow_write_with_filter_ms: float
    share: float
    target: float | None


def columns(rows: int) -> dict[str, pa.Array]:
    chance = np.random.default_rng(1)
    numbers = chance.integers(-(2**63), 2**63 - 1, rows)
    letters = chance.bytes(16 * rows).hex()
    texts = [letters[start : start + 32] for start in range(0, len(letters), 32)]
    return {
        "int32": pa.array(numbers.astype(np.int32)),
        "int64": pa.array(numbers),
        "decimal(38,0)": pa.array(numbers).cast(pa.decimal128(38, 0)),
        "string of 32": pa.array(texts),
        "string of 8": pa.array([text[:8] for text in texts]),
        "dictionary of 1,000": pa.array([texts[row] for row in chance.integers(0, 1000, rows)]).dictionary_encode(),
    }


def best_ms(work: Callable[[], object], runs: int = RUNS) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def write_ms(array: pa.Array, *, filtered: bool) -> float:
    options = {"c": {"ndv": len(array), "fpp": RATE}} if filtered else None
    table = pa.table({"c": array})
    # Without a dictionary: the fastest that pyarrow does for distinct values, so the hardest to beat.
    return best_ms(lambda: pq.write_table(table, io.BytesIO(), use_dictionary=False, bloom_filter_options=options), 5)


def measure(name: str, array: pa.Array) -> Measured:
    hashes = hash_array(array).present()
    absent = np.random.default_rng(2).integers(0, 2**64, len(hashes), np.uint64)
    bloom, plain = (SplitBlockFilter.sized(len(hashes), RATE) for _ in range(2))
    bits = np.zeros((len(plain), 8), np.uint32)
    hash_ms, insert_ms = best_ms(lambda: hash_array(array)), best_ms(lambda: bloom.insert(hashes))
    decoded = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    written = write_ms(array, filtered=False)
    return Measured(
        column=name,
        rows=len(array),
        hash_ms=hash_ms,
        insert_ms=insert_ms,
        check_ms=best_ms(lambda: bloom.check(hashes)),
        check_absent_ms=best_ms(lambda: bloom.check(absent)),
        plain_hash_ms=best_ms(lambda: xxh64.hash_plain(encode_plain(decoded)), 2),
        plain_insert_ms=best_ms(lambda: split_block_lanes.insert(bits, hashes), 2),
        plain_check_ms=best_ms(lambda: split_block_lanes.check(bits, hashes), 2),
        pyarrow_write_ms=written,
        pyarrow_write_with_filter_ms=write_ms(array, filtered=True),
        share=(hash_ms + insert_ms) / written,
        target=TARGETS.get(name),
    )


def start_up() -> dict[str, float]:
    """Seconds that a fresh process waits for its first compiled kernels, with an empty cache and with a full one."""
    code = (
        "import time, needlefish.filters.split_block; start = time.perf_counter();"
        "import needlefish.filters.xxh64_kernels, needlefish.filters.split_block_kernels; print(time.perf_counter() - start)"
    )
    run = [sys.executable, "-c", code]
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        times = [subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    return {"compile_seconds": float(times[0]), "cached_seconds": float(times[1])}


def single() -> dict[str, float]:
    """Microseconds of the paths for one value, which never load numba."""
    bloom = SplitBlockFilter.sized(1_000_000, RATE)
    hashed = hash_value("0123456789abcdef0123456789abcdef", pa.string())
    loop = range(2000)
    return {
        "hash_value_us": best_ms(lambda: [hash_value("0123456789abcdef0123456789abcdef", pa.string()) for _ in loop]) * 1000 / len(loop),
        "may_contain_us": best_ms(lambda: [bloom.may_contain(hashed) for _ in loop]) * 1000 / len(loop),
    }


def shown(results: list[Measured]) -> Table:
    table = Table(title="milliseconds per column (plain = without compiled kernels)")
    headings = (
        "column",
        "rows",
        "hash",
        "insert",
        "check",
        "plain hash",
        "plain insert",
        "plain check",
        "pyarrow write",
        "+ filter",
        "share",
        "target",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "column" else "right")
    for found in results:
        numbers = (found.hash_ms, found.insert_ms, found.check_ms, found.plain_hash_ms, found.plain_insert_ms, found.plain_check_ms)
        written = (found.pyarrow_write_ms, found.pyarrow_write_with_filter_ms)
        target = "" if found.target is None else f"< {found.target:.0%}"
        table.add_row(found.column, f"{found.rows:,}", *(f"{number:.1f}" for number in numbers + written), f"{found.share:.1%}", target)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Exits with 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args(arguments).rows
    before = machine()
    BUDGET.spent_ns = PRICE_NS
    results = [measure(name, array) for name, array in columns(rows).items()]
    report = {"start_up": start_up(), "single": single(), "columns": [asdict(found) for found in results]}
    path = keep("bloom", report, before)
    terminal = console()
    terminal.print(shown(results))
    terminal.print(f"first kernels {report['start_up']}, one value {report['single']}; written to {path}")
    return 0 if all(found.target is None or found.share < found.target for found in results) else 1


if __name__ == "__main__":
    sys.exit(main())
