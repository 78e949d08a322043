"""A scan's receipt for people and for programs."""

from rich.table import Table
from rich.text import Text

from needlefish.cli.human import bytes_text, counted, seconds_text
from needlefish.table.scan import ScanReceipt


def receipt_facts(receipt: ScanReceipt, seconds: float) -> dict[str, object]:
    """Every number of the receipt, by the names that the API has."""
    names = [name for name in ScanReceipt.__slots__ if name != "usage"]
    return {name: getattr(receipt, name) for name in (*names, "requests", "bytes_read")} | {"seconds": round(seconds, 6)}


def receipt_table(receipt: ScanReceipt, seconds: float, *, complete: bool = True) -> Table:
    """What was looked at, what was left alone, and what it cost. An incomplete scan knows nothing of what it left."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, text in _lines(receipt, seconds, complete):
        table.add_row(Text(name, style="cyan"), Text(text))
    return table


def _lines(receipt: ScanReceipt, seconds: float, complete: bool) -> list[tuple[str, str]]:
    files = f"{receipt.files_read:,} read of {receipt.files_total:,}"
    granules = f"{receipt.granules_read:,} read"
    if complete:
        files += f": {files_skipped_by_partition(receipt):,} skipped by partition, {receipt.files_pruned_by_key:,} by key"
        files += f", {receipt.files_pruned_by_skips:,} all hidden" if receipt.files_pruned_by_skips else ""
        granules += f", {receipt.granules_pruned:,} skipped by statistics"
        granules += f", {receipt.granules_pruned_by_skips:,} all hidden" if receipt.granules_pruned_by_skips else ""
    hidden = f", {receipt.rows_skipped:,} hidden" if receipt.rows_skipped else ""
    return [
        ("mode", _mode(receipt)),
        ("files", files),
        ("granules", granules),
        ("rows", f"{receipt.rows_returned:,} of {receipt.rows_read:,} decoded{hidden}" + ("" if complete else ", stopped early")),
        ("cost", f"{counted(receipt.requests, 'request')}, {bytes_text(receipt.bytes_read)}, {seconds_text(seconds)}"),
    ]


def files_skipped_by_partition(receipt: ScanReceipt) -> int:
    """Those whose partition was ruled out, and those that were never even listed since other partitions were asked for."""
    return receipt.files_total - receipt.files_listed + receipt.files_pruned_by_partition


def _mode(receipt: ScanReceipt) -> str:
    looked_up = "" if receipt.partitions is None else f", {counted(receipt.partitions, 'partition')} looked up by name"
    return f"{receipt.mode}{looked_up} (version {receipt.version})"
