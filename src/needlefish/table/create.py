"""Creating a table: everything that can be wrong is found before the first entry is put."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeGuard

from needlefish.errors import AlreadyExistsError, InvalidError
from needlefish.model.definition import Properties, TableDefinition
from needlefish.model.log import TableState
from needlefish.model.schema import Schema
from needlefish.model.types import is_nested
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store
from needlefish.table.partition import computed_columns, parse_partition_by
from needlefish.table.point.declare import PointIndex, define_indexes
from needlefish.timeline import Log, Proposal
from needlefish.version import WRITER

# Waits: none at all is a choice.
_MAY_BE_ZERO = ("table_service_rollback_delay", "retained_seconds", "grace_seconds")
# Of a chunkset too small for granules of the usual length; and how short they may be.
_GRANULES = 16
_LEAST_GRANULE_ROWS = 1_024
_COMPRESSIONS = ("zstd", "lz4", "snappy", "gzip", "brotli", "none")


def define_table(
    schema: Schema,
    key: str | Sequence[str],
    partition_by: str | Sequence[str],
    properties: Mapping[str, object],
    runtime: Runtime = SYSTEM,
    *,
    bloom_columns: str | Sequence[str] = (),
    indexes: Sequence[PointIndex] | None = (),
) -> TableDefinition:
    """A checked definition. Without `indexes` there is no point index, with None the row key has one."""
    key_ids = _key_ids(schema, _listed(key, "key", "'id'"))
    required = tuple(replace(found, nullable=found.nullable and found.id not in key_ids) for found in schema.fields)
    schema = replace(schema, fields=required)
    checked = _properties(properties)
    definition = TableDefinition(
        table_id=runtime.new_id(),
        schemas=(schema,),
        key=key_ids,
        partition_by=parse_partition_by(_listed(partition_by, "partition_by", "'day(ts)'"), schema),
        bloom_columns=_bloom_ids(schema, _listed(bloom_columns, "bloom_columns", "'user_id'"), key_ids),
        point_indexes=define_indexes(indexes, schema, key_ids, checked),
        properties=checked,
    )
    for column in computed_columns(definition):
        column.check()
    return definition


def _listed(given: str | Sequence[str], argument: str, example: str) -> list[str]:
    """One text stands for a list of one."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise InvalidError(f"{argument} is {given!r}; give a text or a list of texts, such as {example}")
    return list(texts)


def _bloom_ids(schema: Schema, names: Sequence[str], key_ids: tuple[int, ...]) -> tuple[int, ...]:
    """A key of one column has a filter already; declaring it again would store it twice."""
    found = [schema.field(name, "bloom_columns") for name in names]
    for column in found:
        if is_nested(column.arrow_type) or column.type == "boolean":
            raise InvalidError(
                f"bloom_columns names column {column.name!r} of type {column.type}; such values have no filter: leave it out"
            )
    return tuple(dict.fromkeys(column.id for column in found if (column.id,) != key_ids))


def _key_ids(schema: Schema, names: Sequence[str]) -> tuple[int, ...]:
    if not names:
        raise InvalidError("key is empty; name the column or columns that identify a row")
    found = [schema.field(name, "key") for name in names]
    for column in found:
        if is_nested(column.arrow_type):
            raise InvalidError(
                f"key names column {column.name!r} of type {column.type}; nested columns cannot identify a row: choose others"
            )
    if len({column.id for column in found}) < len(found):
        raise InvalidError(f"key names a column twice: {', '.join(names)}; name each once")
    return tuple(column.id for column in found)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(value: object, default: object) -> bool:
    """Whole numbers are numbers too."""
    return type(value) is type(default) or (isinstance(default, float) and _is_number(value))


def _properties(given: Mapping[str, object]) -> Properties:
    if not isinstance(given, Mapping):
        raise InvalidError(f"properties is {given!r}; give a mapping, such as {{'granule_rows': 4096}}")
    known = {found.name: found.default for found in fields(Properties)}
    for name, value in given.items():
        if name not in known:
            raise InvalidError(f"properties has {name!r}, which no table has; the names are {', '.join(known)}")
        least = "at or above zero" if name in _MAY_BE_ZERO else "above zero"
        if not _fits(value, known[name]) or (_is_number(value) and not (value >= 0 if name in _MAY_BE_ZERO else value > 0)):
            raise InvalidError(f"properties[{name!r}] is {value!r}; give a value {least} of the kind of the default {known[name]!r}")
    found = Properties(**{name: float(value) if isinstance(known[name], float) else value for name, value in given.items()})  # type: ignore[arg-type]
    if "granule_rows" not in given:
        found = replace(found, granule_rows=_granule_rows(found.chunkset_rows))
    if found.compression not in _COMPRESSIONS:
        raise InvalidError(f"properties['compression'] is {found.compression!r}; choose one of {', '.join(_COMPRESSIONS)}")
    for name in ("granule_bloom_probability", "file_bloom_probability"):
        if not getattr(found, name) < 1:
            raise InvalidError(f"properties[{name!r}] is {getattr(found, name)}; give a rate below 1, such as {known[name]}")
    return found


def _granule_rows(chunkset_rows: int) -> int:
    """Small files have short footers however fine their granules are, and a find in one decodes the less."""
    usual = Properties().granule_rows
    return max(_LEAST_GRANULE_ROWS, min(usual, chunkset_rows // _GRANULES)) if chunkset_rows > usual else usual


def create_table(store: Store, definition: TableDefinition, runtime: Runtime = SYSTEM) -> TableState:
    """Puts version 0. Of several creators at once exactly one succeeds."""

    def propose(state: TableState | None) -> Proposal:
        if state is not None:
            raise AlreadyExistsError(f"{store.uri} holds a table already (version {state.version}); open it, or choose another address")
        return Proposal(action="create", definition=definition)

    return Log(store, WRITER, runtime).append(None, propose)
