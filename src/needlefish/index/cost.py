"""What reading runs is going to cost: counted in requests of a store that joins none, and in bytes.

Exact once a run's header is at hand; before, estimated from the reference that the log keeps.
"""

from dataclasses import dataclass

from needlefish.format.run import BLOCK_RECORDS
from needlefish.index.build import BLOCK_BYTES
from needlefish.model.log import RunRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Requests and bytes."""

    requests: int = 0
    bytes: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(requests=self.requests + other.requests, bytes=self.bytes + other.bytes)


def blocks_in(ref: RunRef) -> int:
    """How many blocks a run has, about: full ones by count, or by bytes where records are large."""
    by_bytes = -(-(ref.bytes - ref.header_bytes) // BLOCK_BYTES)
    return max(-(-ref.records // BLOCK_RECORDS), min(ref.records, by_bytes))


def blocks_touched(blocks: int, keys: int) -> float:
    """How many of the blocks `keys` fall into, since keys are hashes and fall anywhere."""
    return blocks * (1 - (1 - 1 / blocks) ** keys) if blocks else 0.0
