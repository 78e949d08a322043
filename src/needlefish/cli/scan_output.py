"""What `needlefish scan` prints: a table for people, CSV or JSON lines as they are read for programs."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from rich.text import Text

from needlefish.api import Scan
from needlefish.cli.console import on_terminal, stderr_console, stdout_console
from needlefish.cli.csv_output import csv_line, csv_lines
from needlefish.cli.human import counted
from needlefish.cli.json_output import json_lines, json_text
from needlefish.cli.receipt import receipt_facts, receipt_table
from needlefish.cli.row_table import print_rows
from needlefish.runtime import SYSTEM


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How much of a scan to show. `total_rows` is known only where nothing is filtered."""

    limit: int | None
    receipt: bool
    total_rows: int | None


def show_rows(scan: Scan, wanted: Wanted, *, as_json: bool) -> None:
    started = SYSTEM.clock.monotonic()
    if on_terminal() and not as_json:
        _show_table(scan, wanted, started)
        return
    complete = _stream(scan, wanted.limit, as_json=as_json)
    if wanted.receipt:
        _show_receipt(scan, started, as_json=as_json, complete=complete)


def show_count(scan: Scan, *, with_receipt: bool, as_json: bool) -> None:
    started = SYSTEM.clock.monotonic()
    count = scan.count()
    facts = {"receipt": receipt_facts(scan.receipt, SYSTEM.clock.monotonic() - started)} if with_receipt else {}
    if as_json:
        sys.stdout.write(json_text({"count": count, **facts}) + "\n")
        return
    sys.stdout.write(f"{counted(count, 'row') if on_terminal() else count}\n")
    if with_receipt or on_terminal():
        _show_receipt(scan, started, as_json=False, complete=True)


def _show_table(scan: Scan, wanted: Wanted, started: float) -> None:
    # One row more than is shown tells whether there are more.
    rows = pa.Table.from_batches(_first(scan, None if wanted.limit is None else wanted.limit + 1), schema=scan.schema)
    cut = wanted.limit is not None and rows.num_rows > wanted.limit
    seconds = SYSTEM.clock.monotonic() - started
    console = stdout_console()
    print_rows(console, rows.slice(0, wanted.limit))
    console.print(Text("\n" + _note(min(rows.num_rows, wanted.limit or rows.num_rows), cut, wanted.total_rows), style="bold"))
    console.print(receipt_table(scan.receipt, seconds, complete=not cut))


def _note(shown: int, cut: bool, total: int | None) -> str:
    if not cut:
        return counted(shown, "row")
    of = "many" if total is None else f"{total:,}"
    return f"showing {shown:,} of {of} rows; --limit N shows more, --limit 0 all, --count counts"


def _stream(scan: Scan, limit: int | None, *, as_json: bool) -> bool:
    """Prints rows as they come; False if there may be more than were printed."""
    write = sys.stdout.write
    if not as_json:
        write(csv_line(scan.schema.names) + "\n")
    printed = 0
    for batch in _first(scan, limit):
        printed += batch.num_rows
        write("".join(line + "\n" for line in (json_lines(batch) if as_json else csv_lines(batch))))
    return limit is None or printed < limit


def _first(scan: Scan, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first rows; nothing is read beyond them but what was already on its way."""
    left = limit
    for batch in scan:
        yield batch if left is None else batch.slice(0, left)
        if left is not None and (left := left - batch.num_rows) <= 0:
            return


def _show_receipt(scan: Scan, started: float, *, as_json: bool, complete: bool) -> None:
    seconds = SYSTEM.clock.monotonic() - started
    if as_json:
        sys.stdout.write(json_text({"receipt": receipt_facts(scan.receipt, seconds)}) + "\n")
        return
    console = stdout_console() if on_terminal() else stderr_console()
    console.print(receipt_table(scan.receipt, seconds, complete=complete))
