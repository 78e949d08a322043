"""Why a read opens the files that it opens: `print(table.explain(where="…"))`."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every file of the version, by what ruled it out; `files_left` are opened, and rule out granules by their own footers.

    `granules_left` counts the granules that the index names, where it was asked, and all granules of the other files.
    """

    version: int
    # How the files were chosen: "postings 'request_id', 4 runs", or "metadata: files, ranges, filters", or the partitions' mode.
    chosen_by: str
    files_total: int
    files_pruned_by_partition: int = 0
    files_pruned_by_key: int = 0
    files_pruned_by_statistics: int = 0
    files_pruned_by_index: int = 0
    files_pruned_by_filters: int = 0
    files_left: int = 0
    granules_left: int = 0
    bytes_left: int = 0
    # Index objects that could not be read; their files stayed candidates.
    unreadable: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        pruned = [
            (self.files_pruned_by_partition, "partition"),
            (self.files_pruned_by_key, "first and last key"),
            (self.files_pruned_by_statistics, "column statistics"),
            (self.files_pruned_by_index, "point index"),
            (self.files_pruned_by_filters, "Bloom filters"),
        ]
        lines = [f"version {self.version}, files chosen by: {self.chosen_by}", f"{self.files_total:>12,} files"]
        lines += [f"{-count:>12,} ruled out by {reason}" for count, reason in pruned if count]
        lines.append(f"{self.files_left:>12,} left, with {self.granules_left:,} granules of {self.bytes_left:,} bytes")
        return "\n".join([*lines, *(f"unreadable: {text}" for text in self.unreadable)])
