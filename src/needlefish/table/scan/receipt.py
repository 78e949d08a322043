"""What a scan cost and why it read what it read."""

from dataclasses import dataclass, field
from typing import Literal

from needlefish.store import Usage

Mode = Literal["single partition", "several partitions", "filtered scan"]


@dataclass(slots=True, kw_only=True)
class ScanReceipt:
    """Filled while the scan runs; complete once its last batch was taken."""

    version: int
    mode: Mode
    # Partitions looked up by name; None when the whole file list was read.
    partitions: int | None
    files_total: int
    files_listed: int = 0
    files_pruned_by_partition: int = 0
    files_pruned_by_key: int = 0
    # Files and granules of which every row is hidden.
    files_pruned_by_skips: int = 0
    files_read: int = 0
    granules_pruned_by_skips: int = 0
    granules_pruned: int = 0
    granules_read: int = 0
    rows_read: int = 0
    # Of those read, the ones that newer rows replaced or a delete removed.
    rows_skipped: int = 0
    rows_returned: int = 0
    usage: Usage = field(default_factory=Usage)

    @property
    def requests(self) -> int:
        return self.usage.requests

    @property
    def bytes_read(self) -> int:
        return self.usage.bytes_read
