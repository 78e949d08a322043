"""Compares the record tables in `spec/` with the records in code, field by field.

A table stands under a heading "### Record `Name`" and has the columns field, type, since, absent means (and a free
fifth one for words). `python tools/spec_tables.py Name` prints the table that the code would have.
"""

import re
import sys
import types
import typing
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from itertools import dropwhile, takewhile
from pathlib import Path

import msgspec

from needlefish.format.cuckoo_run import CuckooTrailer
from needlefish.format.postings_run import PostingsTrailer
from needlefish.format.run import RunHeader
from needlefish.model import chunkset, definition, entries, instant, log, point_index, schema
from needlefish.services.rewrite.plan import Group, RewritePlan
from needlefish.table.parquet_writer import Clustered
from needlefish.timeline.heartbeat import Pulse

SPEC = Path(__file__).parent.parent / "spec"

# Every record that reaches storage. A new one belongs here, and thereby into the spec.
RECORDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        log.LogEntry,
        log.TableState,
        log.RunRef,
        log.Totals,
        log.Batch,
        instant.InstantStep,
        instant.Claim,
        instant.PlanSummary,
        instant.Instant,
        Pulse,
        definition.TableDefinition,
        definition.PartitionColumn,
        definition.Properties,
        schema.Schema,
        schema.Field,
        point_index.PointIndexDefinition,
        point_index.PointRun,
        RunHeader,
        PostingsTrailer,
        CuckooTrailer,
        chunkset.ChunksetInfo,
        chunkset.Granule,
        Clustered,
        RewritePlan,
        Group,
        entries.ColumnStats,
        entries.BloomEntry,
    )
}

_HEADING = re.compile(r"^### Record `(\w+)`$", re.MULTILINE)
_NAMES = {int: "int", str: "string", bool: "boolean", float: "number", bytes: "bytes", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Row:
    """One field, as a table shows it."""

    field: str
    type: str
    absent: str


def type_name(kind: object) -> str:
    """An annotation in the spec's words."""
    if kind in _NAMES:
        return _NAMES[kind]  # type: ignore[index]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if origin is tuple:
        return f"list of {type_name(arguments[0])}"
    if origin in (types.UnionType, typing.Union):
        return " or ".join(type_name(argument) for argument in arguments)
    return type_name(kind.__supertype__) if isinstance(kind, typing.NewType) else kind.__name__  # type: ignore[attr-defined]


def absent_means(found: "Field[object]") -> str:
    """The default in JSON's words."""
    if found.default is MISSING and found.default_factory is MISSING:
        return "required"
    default = found.default if found.default_factory is MISSING else found.default_factory()
    if is_dataclass(default):
        return "all defaults"
    return _in_json(default)


def _in_json(value: object) -> str:
    return f"`{msgspec.json.encode(value).decode()}`"


def rows_in_code(record: type) -> list[Row]:
    hints = typing.get_type_hints(record)
    if issubclass(record, msgspec.Struct):
        made = msgspec.structs.fields(record)
        return [Row(one.name, type_name(hints[one.name]), "required" if one.required else _in_json(one.default)) for one in made]
    return [Row(found.name, type_name(hints[found.name]), absent_means(found)) for found in fields(record)]


def tables_in_spec(folder: Path = SPEC) -> dict[str, list[Row]]:
    """Every record table of the spec."""
    tables = {}
    for path in sorted(folder.glob("*.md")):
        text = path.read_text()
        for heading in _HEADING.finditer(text):
            tables[heading[1]] = _read_table(text[heading.end() :])
    return tables


def _read_table(text: str) -> list[Row]:
    """The first table below a heading; others may follow it."""
    below = dropwhile(lambda line: not line.startswith(("|", "#")), text.splitlines())
    rows = []
    for line in takewhile(lambda line: line.startswith("|"), below):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] != "field" and not cells[0].startswith("-"):
            rows.append(Row(cells[0].strip("`"), cells[1], cells[3]))
    return rows


def show(record: type) -> str:
    lines = ["| field | type | since | absent means |", "|---|---|---|---|"]
    return "\n".join(lines + [f"| `{row.field}` | {row.type} | 1 | {row.absent} |" for row in rows_in_code(record)])


if __name__ == "__main__":
    for name in sys.argv[1:] or RECORDS:
        print(f"### Record `{name}`\n\n{show(RECORDS[name])}\n")
