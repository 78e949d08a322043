"""Block choice and lane masks of the split-block filter in plain NumPy: the readable version, and the one without numba."""

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.sizing import LANES

Blocks = NDArray[np.uint32]
Hashes = NDArray[np.uint64]

# From the Parquet specification: do not reorder, each lane has its own.
SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)

# Nanoseconds per value, measured by benchmarks/bloom.py; they only steer the choice of path.
INSERT_NS = 120
CHECK_NS = 50

_LANE_SALTS = np.array(SALTS, np.uint32)


def block_of(hashes: Hashes, blocks: int) -> NDArray[np.int64]:
    """The upper half of the hash, scaled to the number of blocks by multiplication instead of a remainder."""
    return (((hashes >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)).astype(np.int64)


def masks(hashes: Hashes) -> Blocks:
    """One row of 8 lanes per hash, one bit in each, chosen by the lower half of the hash."""
    keys = hashes.astype(np.uint32)[:, None]
    return np.uint32(1) << ((keys * _LANE_SALTS) >> np.uint32(27))


def insert(blocks: Blocks, hashes: Hashes) -> None:
    """Sets the bits of every hash."""
    lanes = block_of(hashes, len(blocks))[:, None] * LANES + np.arange(LANES)
    np.bitwise_or.at(blocks.reshape(-1), lanes.reshape(-1), masks(hashes).reshape(-1))


def check(blocks: Blocks, hashes: Hashes) -> NDArray[np.bool_]:
    """Whether all bits of each hash are set."""
    wanted = masks(hashes)
    found = blocks[block_of(hashes, len(blocks))] & wanted
    return np.asarray((found == wanted).all(axis=1), np.bool_)


def check_one(blocks: Blocks, hashed: int) -> bool:
    """`check` for a single hash in Python's own integers: a quarter of the time that arrays of one take."""
    block = blocks[((hashed >> 32) * len(blocks)) >> 32].tolist()
    key = hashed & 0xFFFFFFFF
    return all(lane >> ((key * salt & 0xFFFFFFFF) >> 27) & 1 for lane, salt in zip(block, SALTS, strict=True))
