"""Parquet's split-block Bloom filter: blocks of 8 lanes of 32 bits, one bit per lane and value.

Takes hashes (see `hash`), never values. Bits are exactly those of the Parquet specification, so that `to_bytes` is the
bitset of a Parquet file and the other way round.
"""

import math
from typing import Self

import numpy as np
from numpy.typing import NDArray

from needlefish.errors import InvalidError
from needlefish.filters import split_block_lanes as lanes
from needlefish.filters.compiling import BUDGET
from needlefish.filters.sizing import (
    BLOCK_BITS,
    BLOCK_BYTES,
    LANE_BITS,
    LANES,
    MAX_BLOCKS,
    bits_per_value,
    blocks_for,
    check_blocks,
    expected_rate,
    values_for,
)

__all__ = ["BLOCK_BYTES", "MAX_BLOCKS", "SplitBlockFilter", "bits_per_value", "blocks_for", "expected_rate", "values_for"]

# Blocks looked at together when bits are counted: bounds the temporary memory for a filter of 2 GiB.
_STRIDE = 1 << 16


class SplitBlockFilter:
    """A set of hashes that may say yes wrongly and no only rightly. Not thread-safe while inserting."""

    __slots__ = ("_blocks",)

    def __init__(self, blocks: lanes.Blocks) -> None:
        """Wraps `blocks` (n x 8, uint32) without a copy; most callers want `empty`, `sized` or `from_bytes`."""
        assert blocks.ndim == 2
        assert blocks.shape[1] == LANES
        assert blocks.dtype == np.uint32
        check_blocks(len(blocks))
        # A bitset behind a header of odd length is unaligned, and kernels are compiled for aligned lanes.
        self._blocks = np.require(blocks, requirements=["C", "A"])

    @classmethod
    def empty(cls, blocks: int) -> Self:
        """`blocks` blocks without a value."""
        check_blocks(blocks)
        return cls(np.zeros((blocks, LANES), np.uint32))

    @classmethod
    def sized(cls, values: int, probability: float) -> Self:
        """An empty filter for `values` distinct values at a false positive rate of `probability`."""
        return cls.empty(blocks_for(values, probability))

    @classmethod
    def from_bytes(cls, bitset: bytes | memoryview) -> Self:
        """A filter over the bitset as stored; it is copied only when unaligned or when something is inserted."""
        size = len(bitset)
        if size % BLOCK_BYTES or not size:
            raise InvalidError(f"bitset of {size} bytes: a split-block filter is a positive multiple of {BLOCK_BYTES} bytes")
        return cls(np.frombuffer(bitset, "<u4").reshape(-1, LANES))

    def to_bytes(self) -> bytes:
        """The bitset as Parquet stores it, little-endian lanes in order."""
        return self._blocks.astype("<u4", copy=False).tobytes()

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._blocks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SplitBlockFilter) and np.array_equal(self._blocks, other._blocks)

    # Mutable, so unhashable.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SplitBlockFilter(blocks={len(self)}, bits_set={self.bits_set()})"

    @property
    def size_bytes(self) -> int:
        return len(self) * BLOCK_BYTES

    def insert(self, hashes: NDArray[np.uint64]) -> None:
        """Adds every hash of the array."""
        if not self._blocks.flags.writeable:
            self._blocks = self._blocks.copy()
        hashes = np.ascontiguousarray(hashes, np.uint64)
        if not BUDGET.pays(len(hashes) * lanes.INSERT_NS):
            return lanes.insert(self._blocks, hashes)
        from needlefish.filters import split_block_kernels as compiled

        compiled.insert(self._blocks, hashes)

    def check(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """False where the hash was certainly never inserted."""
        hashes = np.ascontiguousarray(hashes, np.uint64)
        if not BUDGET.pays(len(hashes) * lanes.CHECK_NS):
            return lanes.check(self._blocks, hashes)
        from needlefish.filters import split_block_kernels as compiled

        out = np.empty(len(hashes), np.bool_)
        compiled.check(self._blocks, hashes, out)
        return out

    def may_contain(self, hashed: int) -> bool:
        """`check` for one hash."""
        return lanes.check_one(self._blocks, hashed)

    def union(self, other: "SplitBlockFilter") -> "SplitBlockFilter":
        """A filter of both; where sizes differ, the larger is folded, so one must be a multiple of the other."""
        blocks = min(len(self), len(other))
        return SplitBlockFilter(self.fold(blocks)._blocks | other.fold(blocks)._blocks)

    def fold(self, blocks: int) -> "SplitBlockFilter":
        """The filter that inserting the same values into `blocks` blocks would have given, bit for bit.

        A value's block is floor(x n) for a fraction x of its hash, and floor(floor(x n k) / k) = floor(x n): so the k
        neighbouring blocks of the larger filter are exactly one block of the smaller.
        """
        check_blocks(blocks)
        if len(self) % blocks:
            raise InvalidError(f"blocks {blocks}: a filter of {len(self)} blocks folds only into a divisor of that number")
        if blocks == len(self):
            return self
        return SplitBlockFilter(np.bitwise_or.reduce(self._blocks.reshape(blocks, -1, LANES), axis=1))

    def bits_set(self) -> int:
        """How many bits are 1."""
        return sum(int(np.bitwise_count(part).sum(dtype=np.int64)) for part in self._parts())

    def false_positive_rate(self) -> float:
        """The chance that a value that was never inserted passes, from the bits themselves: no assumption on what is inside."""
        passing = sum(float(np.prod(np.bitwise_count(part) / LANE_BITS, axis=1).sum()) for part in self._parts())
        return passing / len(self)

    def estimated_values(self) -> float:
        """The distinct values inside, from the share of bits still 0; infinite when no bit is."""
        unset = 1 - self.bits_set() / (len(self) * BLOCK_BITS)
        return math.log(unset) / math.log1p(-1 / (len(self) * LANE_BITS)) if unset else math.inf

    def _parts(self) -> list[lanes.Blocks]:
        return [self._blocks[start : start + _STRIDE] for start in range(0, len(self), _STRIDE)]
