"""Scenes in which the table is read: here without Spark, by value and by range."""

from needlefish.api import Scan
from needlefish.cli.demo.requests import DAYS
from needlefish.cli.demo.stage import Facts, Stage, Step
from needlefish.cli.find_output import find_facts, find_receipt
from needlefish.cli.human import counted
from needlefish.cli.receipt import files_skipped_by_partition, receipt_facts, receipt_table
from needlefish.cli.row_table import print_rows
from needlefish.runtime import SYSTEM

_SHOWN_ROWS = 5


def _scan_day(stage: Stage) -> Facts:
    where = f"ts >= '{DAYS[2]}' and ts <= '{DAYS[2]} 23:59:59.999' and status = 503"
    stage.command(f'needlefish scan {stage.uri} --where "{where}"')
    scan = stage.table.scan(where=where)
    facts = _show(stage, scan)
    stage.say(
        f"The table knows that [bold]ts[/] decides [bold]day(ts)[/]: {counted(files_skipped_by_partition(scan.receipt), 'file')} of other days were left alone."
    )
    return facts


def _partition(stage: Stage) -> Facts:
    stage.command(f"needlefish scan {stage.uri} --partition day={DAYS[4]} --columns host,latency_ms --key-to 00ff")
    scan = stage.table.scan(columns=["host", "latency_ms"], partitions={"day": DAYS[4]}, key_range=(None, "00ff"))
    facts = _show(stage, scan)
    stage.say(
        "One partition's files are looked up by name, the first and last key of each rule most of them out, and only the asked columns are read."
    )
    return facts


def _needle(stage: Stage) -> Facts:
    stage.command(f"needlefish find {stage.uri} request_id={stage.needle}")
    facts = _find(stage, stage.needle)
    stage.say("The key's point index names the granules that may hold it, whatever the number of files; nothing else is opened.")
    return facts


def _absent(stage: Stage) -> Facts:
    absent = stage.needle[::-1]
    stage.command(f"needlefish find {stage.uri} request_id={absent}")
    facts = _find(stage, absent)
    stage.say("What is not there is answered from the index: no data file was opened.")
    return facts


def _find(stage: Stage, request_id: str) -> Facts:
    started = SYSTEM.clock.monotonic()
    found = stage.table.find(request_id=request_id)
    seconds = SYSTEM.clock.monotonic() - started
    if len(found):
        print_rows(stage.console, found.to_arrow())
        stage.console.print()
    stage.console.print(find_receipt(found.receipt, seconds))
    return {"found": len(found), "receipt": find_facts(found.receipt, seconds)}


def _show(stage: Stage, scan: Scan) -> Facts:
    started = SYSTEM.clock.monotonic()
    rows = scan.to_arrow()
    seconds = SYSTEM.clock.monotonic() - started
    print_rows(stage.console, rows.slice(0, _SHOWN_ROWS))
    if rows.num_rows > _SHOWN_ROWS:
        stage.console.print(f"… {rows.num_rows - _SHOWN_ROWS:,} more", style="dim")
    stage.console.print()
    stage.console.print(receipt_table(scan.receipt, seconds))
    return {"found": rows.num_rows, "receipt": receipt_facts(scan.receipt, seconds)}


READ_STEPS = (
    Step(title="Errors of one day", text="Read in this process, without Spark. The condition names ts, not the partition.", run=_scan_day),
    Step(title="One partition, a range of keys", text="Partitions can be asked for by name, and row keys by range.", run=_partition),
    Step(title="The needle", text="One request, by its key and nothing else.", run=_needle),
    Step(title="A needle that is not there", text="The same question for a key that nobody has.", run=_absent),
)
