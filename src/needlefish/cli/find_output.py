"""What `needlefish find` prints: rows, and the receipt level by level."""

import sys
from dataclasses import fields

from rich.console import Group
from rich.table import Table
from rich.text import Text

from needlefish.api import Found
from needlefish.cli.console import on_terminal, stderr_console, stdout_console
from needlefish.cli.csv_output import csv_line, csv_lines
from needlefish.cli.human import bytes_text, counted, seconds_text
from needlefish.cli.json_output import json_lines, json_text
from needlefish.cli.row_table import print_rows
from needlefish.table.find import FindReceipt, LevelReceipt


def show_found(found: Found, seconds: float, *, with_receipt: bool, as_json: bool) -> None:
    if on_terminal() and not as_json:
        console = stdout_console()
        print_rows(console, found.to_arrow())
        console.print(Text("\n" + counted(len(found), "row"), style="bold"))
        console.print(find_receipt(found.receipt, seconds))
        return
    _stream(found, as_json=as_json)
    if with_receipt and as_json:
        sys.stdout.write(json_text({"receipt": find_facts(found.receipt, seconds)}) + "\n")
    elif with_receipt:
        stderr_console().print(find_receipt(found.receipt, seconds))


def _stream(found: Found, *, as_json: bool) -> None:
    write = sys.stdout.write
    rows = found.to_arrow()
    if not as_json:
        write(csv_line(rows.schema.names) + "\n")
    for batch in rows.to_batches():
        write("".join(line + "\n" for line in (json_lines(batch) if as_json else csv_lines(batch))))


def find_facts(receipt: FindReceipt, seconds: float) -> dict[str, object]:
    """Every number of the receipt, by the names that the API has."""
    names = [found.name for found in fields(FindReceipt) if found.name != "levels"]
    facts = {name: getattr(receipt, name) for name in (*names, "requests", "bytes_read")}
    return facts | {"levels": [_level_facts(level) for level in receipt.levels], "seconds": round(seconds, 6)}


def _level_facts(level: LevelReceipt) -> dict[str, object]:
    names = [found.name for found in fields(LevelReceipt) if found.name != "usage"]
    return {name: getattr(level, name) for name in (*names, "requests", "bytes_read")}


def find_receipt(receipt: FindReceipt, seconds: float) -> Group:
    """What every level let pass and what it cost, then the sums."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, text in _lines(receipt, seconds):
        grid.add_row(Text(name, style="cyan"), Text(text))
    return Group(grid, _levels(receipt), *(Text(f"not read: {text}", style="yellow") for text in receipt.unreadable))


def _lines(receipt: FindReceipt, seconds: float) -> list[tuple[str, str]]:
    looked_up = "" if receipt.partitions is None else f", {counted(receipt.partitions, 'partition')} looked up by name"
    granules = f"{receipt.granules_read:,} read, {receipt.granules_pruned:,} skipped, {receipt.false_granules:,} held nothing"
    hidden = f", {receipt.rows_skipped:,} hidden" if receipt.rows_skipped else ""
    return [
        ("index", f"{receipt.index}{looked_up} (version {receipt.version})"),
        ("granules", granules),
        ("rows", f"{receipt.rows_returned:,} of {receipt.rows_read:,} decoded{hidden}"),
        ("cost", f"{counted(receipt.requests, 'request')}, {bytes_text(receipt.bytes_read)}, {seconds_text(seconds)}"),
    ]


def _levels(receipt: FindReceipt) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for heading in ("level", "files in", "files out", "unknown", "requests", "expected", "bytes", "expected"):
        table.add_column(heading, justify="left" if heading == "level" else "right", no_wrap=True)
    for level in receipt.levels:
        if not (level.files_in or level.requests):
            # What was not asked: the levels behind a point index, or the index where there is none.
            continue
        counts = (level.files_in, level.files_out, level.unknown, level.requests, level.predicted_requests)
        sizes = (bytes_text(level.bytes_read), bytes_text(level.predicted_bytes))
        table.add_row(level.name, *(f"{count:,}" for count in counts), *sizes)
    return table
