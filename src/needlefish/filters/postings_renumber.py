"""Pairs of one run as pairs of another: fewer slots, other ordinals, other granules."""

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.compiling import BUDGET
from needlefish.filters.postings import Pairs

# The ordinal of a granule that has none in the other run.
GONE = -1

# Nanoseconds per pair without kernels; they only steer the choice of path.
_PAIR_NS = 30


def renumber(pairs: Pairs, granules: int, halvings: int, ordinals: NDArray[np.int64], new_granules: int) -> Pairs:
    """Without the pairs of granules that are gone."""
    if not BUDGET.pays(len(pairs) * _PAIR_NS):
        slots, old = np.divmod(pairs, granules)
        new = ordinals[old]
        renumbered: Pairs = (slots >> halvings) * new_granules + new
        return np.compress(new != GONE, renumbered)
    from needlefish.filters import postings_kernels as compiled

    out = np.empty(len(pairs), np.int64)
    kept: int = compiled.renumber(np.ascontiguousarray(pairs), granules, halvings, ordinals, new_granules, out)
    return out[:kept]
