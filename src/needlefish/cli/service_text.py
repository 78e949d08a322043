"""What table services did, in a sentence each."""

from collections.abc import Sequence

from rich.table import Table as Grid
from rich.text import Text

from needlefish.api.plans import age_text, kind_text
from needlefish.cli.human import bytes_text, counted, seconds_text
from needlefish.services.execute import ServiceResult
from needlefish.services.status import InstantStatus
from needlefish.services.upkeep import CancelResult

_NUMBERS = ("epoch", "age", "heartbeat", "files", "rows", "bytes")


def executed_words(result: ServiceResult) -> str:
    """`6 files, 9.3 KiB became 3, 8.1 KiB; 20 hidden rows are gone`, without the version."""
    before = f"{counted(result.files_before, 'file')}, {bytes_text(result.bytes_before)}"
    became = f"{before} became {result.files:,}, {bytes_text(result.bytes)}"
    gone = f"; {counted(result.folded, 'hidden row')} {'is' if result.folded == 1 else 'are'} gone" if result.folded else ""
    return became + gone


def executed(result: ServiceResult) -> Text:
    if result.repeated:
        return Text(f"another worker has done this already, as version {result.version}: {executed_words(result)}")
    return Text(f"version {result.version}: {result.action}: {executed_words(result)}, in {seconds_text(result.seconds)}")


def cancelled(result: CancelResult) -> Text:
    if result.over:
        return Text(f"version {result.version}: plan {result.plan} is rolled back")
    return Text(f"version {result.version}: plan {result.plan} cannot commit any more; its worker stops when it next looks")


def plans_table(plans: Sequence[InstantStatus]) -> Grid | Text:
    """One line for each; columns in which nobody has anything are left out."""
    if not plans:
        return Text("no plans: nothing waits and nobody works on the table")
    rows = [_cells(status) for status in plans]
    grid = Grid(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown = [title for title in rows[0] if any(row[title] for row in rows)]
    for title in shown:
        grid.add_column(title, justify="right" if title in _NUMBERS else "left", no_wrap=title not in ("progress", "waits for"))
    for row in rows:
        grid.add_row(*(Text(row[title]) for title in shown))
    return grid


def _cells(status: InstantStatus) -> dict[str, str]:
    return {
        "plan": status.id,
        "action": status.action,
        "state": status.state,
        "kind": kind_text(status),
        "epoch": str(status.epoch or ""),
        "owner": status.owner or "",
        "age": age_text(status.age_seconds),
        "heartbeat": age_text(status.heartbeat_seconds),
        "files": "" if status.files is None else f"{status.files:,}",
        "rows": "" if status.rows is None else f"{status.rows:,}",
        "bytes": "" if status.bytes is None else bytes_text(status.bytes),
        "progress": status.progress or "",
        "waits for": status.waits_for or "",
    }
