"""The hash against numbers that do not come from any code of ours, at the sizes where its branches change."""

import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from needlefish.filters.compiling import PRICE_NS, Budget
from needlefish.filters.hash import hash_array, hash_key_value, hash_value

# From the xxHash specification and its reference test suite (seed 0).
VECTORS = {
    b"": 0xEF46DB3751D8E999,
    b"a": 0xD24EC4F1A98C6E5B,
    b"abc": 0x44BC2CF5AD770999,
    b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
}


@pytest.mark.parametrize(("data", "number"), VECTORS.items())
def test_published_vectors(engine: str, data: bytes, number: int) -> None:
    assert hash_array(pa.array([data])).hashes.tolist() == [number]
    assert hash_value(data, pa.binary()) == number


# Inputs spelled out by hand and the hash that the spec prints for them.
SPEC = {
    "EF46DB3751D8E999": (hash_value("", pa.string()), ""),
    "D24EC4F1A98C6E5B": (hash_value("a", pa.string()), "61"),
    "44BC2CF5AD770999": (hash_value("abc", pa.string()), "616263"),
    "B7CA480E9B960D0E": (hash_value(7, pa.int32()), "07000000"),
    "0876CD406AFDE455": (hash_value(7, pa.int64()), "0700000000000000"),
    "34C96ACDCADB1BBB": (hash_value(0.0, pa.float64()), "0000000000000000"),
    "5D6D59518C48CB81": (hash_value(Decimal("1.50"), pa.decimal128(9, 2)), "00000096"),
    "E5CDB0530B57E63A": (hash_value(date(2026, 11, 1), pa.date32()), "16510000"),
    "B0BC2DA329BC73D3": (hash_key_value(["a", 7], [pa.string(), pa.int32()]), "01000000" + "61" + "04000000" + "07000000"),
}


@pytest.mark.parametrize(("printed", "case"), SPEC.items())
def test_the_specs_vectors(printed: str, case: tuple[int, str]) -> None:
    hashed, data = case
    assert f"{hashed:016X}" == printed == f"{xxhash.xxh64_intdigest(bytes.fromhex(data)):016X}"
    assert f"| `{printed}` |" in (Path(__file__).parents[2] / "spec" / "filters.md").read_text()


def test_every_length_up_to_three_stripes(engine: str) -> None:
    seed = np.random.default_rng(7)
    blobs = [seed.bytes(size) for size in range(100)]
    assert hash_array(pa.array(blobs)).hashes.tolist() == [xxhash.xxh64_intdigest(blob) for blob in blobs]
    for width in (1, 3, 7, 9, 12, 31, 32, 33, 64):
        fixed = [seed.bytes(width) for _ in range(5)]
        assert hash_array(pa.array(fixed, pa.binary(width))).hashes.tolist() == [xxhash.xxh64_intdigest(blob) for blob in fixed]


def test_many_values_at_once(engine: str) -> None:
    numbers = np.random.default_rng(8).integers(-(2**63), 2**63 - 1, 50_000)
    hashes = hash_array(pa.array(numbers)).hashes
    for row in range(0, 50_000, 997):
        assert hashes[row] == xxhash.xxh64_intdigest(numbers[row].tobytes())


def test_offsets_at_an_odd_address_hash_the_same(engine: str) -> None:
    """Buffers that came over a wire need not be aligned."""
    array = pa.array(["needle", "fish", "x" * 50])
    offsets = array.buffers()[1].to_pybytes()
    shifted = pa.py_buffer(b"\0" + offsets).slice(1)
    moved = pa.Array.from_buffers(pa.string(), 3, [None, shifted, array.buffers()[2]])
    assert hash_array(moved).hashes.tolist() == hash_array(array).hashes.tolist()


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_single_values_and_small_arrays_never_load_the_compiler() -> None:
    code = """
import sys, pyarrow as pa
from needlefish.filters.hash import hash_array, hash_key, hash_value
from needlefish.filters.split_block import SplitBlockFilter
bloom = SplitBlockFilter.sized(1000, 0.01)
bloom.insert(hash_array(pa.array(range(1000))).hashes)
assert bloom.may_contain(hash_value(7, pa.int64()))
hash_key([pa.array(['a']), pa.array([1])])
print('numba' in sys.modules)
"""
    assert run_python(code) == "False"


def test_much_work_loads_the_compiler_and_agrees_with_the_slow_path() -> None:
    code = """
import sys, numpy as np, pyarrow as pa
from needlefish.filters import xxh64
from needlefish.filters.hash import hash_array
from needlefish.filters.plain_values import encode_plain
array = pa.array(np.arange(40_000_000))
fast = hash_array(array).hashes
print('numba' in sys.modules, bool((fast[:100_000] == xxh64.hash_plain(encode_plain(array[:100_000]))).all()))
"""
    assert run_python(code) == "True True"


def test_kernels_compile_where_no_cache_folder_can_be_written() -> None:
    """A read-only install without a home: numba offers no locator, and the kernels must still work."""
    code = """
import numpy as np
from needlefish.filters import split_block_kernels as kernels
blocks = np.zeros((1, 8), np.uint32)
kernels.insert(blocks, np.array([5], np.uint64))
print(int(np.bitwise_count(blocks).sum()))
"""
    assert run_python(code, NUMBA_CACHE_DIR="", NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator") == "8"


def test_work_is_rented_until_it_costs_as_much_as_the_kernels() -> None:
    budget = Budget(available=True)
    assert not budget.pays(PRICE_NS - 1)
    assert budget.pays(1)
    assert budget.pays(0)
    assert not Budget(available=False).pays(10 * PRICE_NS)
