"""When compiled kernels are worth their start-up, and how they are compiled.

Importing numba and loading kernels from its cache costs about a third of a second, compiling them the first time one
to two. A process that hashes a few keys must never pay that, one that hashes millions must. So work is done by NumPy
until it has cost about as much as the kernels would, as one rents skis until the rent equals their price: the total is
then never more than twice the best choice, whatever comes.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

Kernel = Callable[..., Any]

# Import plus cached load, measured by benchmarks/bloom.py on two cores: 0.4 s.
PRICE_NS = 400_000_000


class Budget:
    """What this process has spent on the slow path so far. A race between threads can only delay the switch."""

    __slots__ = ("available", "spent_ns")

    def __init__(self, *, available: bool) -> None:
        self.available = available
        self.spent_ns = 0

    def pays(self, cost_ns: int) -> bool:
        """Whether to use compiled kernels for work that would cost `cost_ns` without them."""
        if not self.available:
            return False
        self.spent_ns += cost_ns
        return self.spent_ns >= PRICE_NS


# Numba is the optional extra `kernels`: without it everything works, slower.
BUDGET = Budget(available=find_spec("numba") is not None)


def kernel(*signatures: Any) -> Callable[[Kernel], Kernel]:
    """Compiles at once for the given signatures, keeps the machine code on disk, and releases the GIL while running."""

    def compile_now(function: Kernel) -> Kernel:
        from numba import njit

        try:
            return njit(list(signatures), cache=True, nogil=True)(function)
        except RuntimeError as error:
            # Numba raises when neither the package's folder nor the user's cache folder can be written.
            if "cannot cache function" not in str(error):
                raise
            return njit(list(signatures), nogil=True)(function)

    return compile_now
