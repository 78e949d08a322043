"""How large a split-block filter must be, and how often it lies.

All sizes follow from one exact formula. With n values in B blocks, a block holds k ~ Binomial(n, 1/B) of them, and a
foreign value passes when each of its 8 bits is set: (1 - (31/32)^k)^8. Expanding the power turns the mean over k into
nine terms: sum over j of C(8,j) (-1)^j (1 - (1 - (31/32)^j) / B)^n.
"""

import math

from needlefish.errors import InvalidError

LANES = 8
LANE_BITS = 32
BLOCK_BYTES = 32
BLOCK_BITS = 256
# The header's numBytes is a signed 32-bit number: the largest multiple of 32 below 2^31.
MAX_BLOCKS = (2**31 - 1) // BLOCK_BYTES
# Below this the nine terms, of up to 70 each, cancel to rounding noise.
MIN_PROBABILITY = 1e-10

_SIGNED_CHOICES = [math.comb(LANES, j) * (-1) ** j for j in range(LANES + 1)]
_MISSES = [1 - (1 - 1 / LANE_BITS) ** j for j in range(LANES + 1)]


def expected_rate(blocks: int, values: float) -> float:
    """The false positive rate of `blocks` blocks that hold `values` distinct values."""
    check_blocks(blocks)
    if values < 0:
        raise InvalidError(f"values {values}: the number of distinct values cannot be negative")
    # Only a one-block filter has a term with miss/blocks near 1; log1p(-1) cannot occur because (31/32)^8 > 0.
    terms = (choice * math.exp(values * math.log1p(-miss / blocks)) for choice, miss in zip(_SIGNED_CHOICES, _MISSES, strict=True))
    return min(1.0, max(0.0, math.fsum(terms)))


def blocks_for(values: int, probability: float) -> int:
    """The fewest blocks that keep `values` distinct values at or below `probability`."""
    _check_probability(probability)
    if values < 0:
        raise InvalidError(f"values {values}: the number of distinct values cannot be negative")
    if expected_rate(MAX_BLOCKS, values) > probability:
        largest = f"the largest filter ({MAX_BLOCKS} blocks) cannot keep them at {probability}"
        raise InvalidError(f"values {values}: {largest}; raise the probability or split the values")
    low, high = 1, MAX_BLOCKS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if expected_rate(middle, values) <= probability else (middle + 1, high)
    return low


def values_for(blocks: int, probability: float) -> int:
    """The most distinct values that `blocks` blocks hold at or below `probability`."""
    check_blocks(blocks)
    _check_probability(probability)
    low, high = 0, blocks * BLOCK_BITS * LANE_BITS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if expected_rate(blocks, middle) <= probability else (low, middle - 1)
    return low


def bits_per_value(probability: float) -> float:
    """What a value costs in a filter large enough for block counts not to matter."""
    blocks = 1 << 16
    return blocks * BLOCK_BITS / values_for(blocks, probability)


def check_blocks(blocks: int) -> None:
    """Refuses block counts that no Parquet header can state."""
    if not 1 <= blocks <= MAX_BLOCKS:
        raise InvalidError(f"blocks {blocks}: a filter has 1 to {MAX_BLOCKS} blocks of {BLOCK_BYTES} bytes")


def _check_probability(probability: float) -> None:
    if not MIN_PROBABILITY <= probability < 1:
        raise InvalidError(f"probability {probability}: the false positive rate lies between {MIN_PROBABILITY} and 1, for example 0.01")
