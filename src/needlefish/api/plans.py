"""`table.plans()`: a list of instants that prints as a table."""

from collections.abc import Callable
from typing import NamedTuple

from needlefish.services.status import InstantStatus


class _Column(NamedTuple):
    title: str
    text: Callable[[InstantStatus], str]
    is_number: bool = False


class Plans(list[InstantStatus]):
    """All that is going on, and what ended of late if that was asked for. `print` shows a table; columns without any value are left out."""

    def __repr__(self) -> str:
        if not self:
            return "no plans: nothing waits and nobody works on the table"
        shown = [column for column in _COLUMNS if any(column.text(status) for status in self)]
        cells = [[column.text(status) for status in self] for column in shown]
        widths = [max(len(column.title), *map(len, texts)) for column, texts in zip(shown, cells, strict=True)]
        lines = [[column.title for column in shown], *map(list, zip(*cells, strict=True))]
        return "\n".join(_line(line, widths, shown) for line in lines)


def _line(cells: list[str], widths: list[int], columns: list[_Column]) -> str:
    placed = (
        text.rjust(width) if column.is_number else text.ljust(width) for text, width, column in zip(cells, widths, columns, strict=True)
    )
    return "  ".join(placed).rstrip()


def kind_text(status: InstantStatus) -> str:
    """Of a plan alone."""
    return "" if status.cancellable is None else "cancellable" if status.cancellable else "immutable"


def age_text(seconds: float | None) -> str:
    """`4 s`, `12 min`, `3 h`, `2 d`: one figure is enough to see who is late."""
    if seconds is None:
        return ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


_COLUMNS = (
    _Column("id", lambda status: status.id),
    _Column("action", lambda status: status.action),
    _Column("state", lambda status: status.state),
    _Column("kind", kind_text),
    _Column("epoch", lambda status: str(status.epoch or ""), is_number=True),
    _Column("owner", lambda status: status.owner or ""),
    _Column("age", lambda status: age_text(status.age_seconds), is_number=True),
    _Column("heartbeat", lambda status: age_text(status.heartbeat_seconds), is_number=True),
    _Column("files", lambda status: _number(status.files), is_number=True),
    _Column("rows", lambda status: _number(status.rows), is_number=True),
    _Column("bytes", lambda status: _number(status.bytes), is_number=True),
    _Column("progress", lambda status: status.progress or ""),
    _Column("waits for", lambda status: status.waits_for or ""),
)
