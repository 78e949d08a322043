"""Changing a table's columns: one more schema, by field id, and no file is touched.

Files keep the schema they were written under; readers match columns by id. An id is never used twice, so that a column
which comes back under an old name begins empty, and nothing recorded of the old one speaks for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.model.schema import Field, Schema, check_names
from needlefish.model.text import Tokens
from needlefish.model.types import read_type, type_text
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store
from needlefish.table.commit import check_same_table
from needlefish.table.widening import check_widening
from needlefish.timeline import Log, Proposal
from needlefish.version import WRITER


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to change. `drop`, `rename` and `widen` go by the names there are, `add` and `reorder` by those there will be.

    `reorder` names the columns that come first; the others follow as they were.
    """

    add: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    widen: Mapping[str, str] = field(default_factory=dict)
    reorder: Sequence[str] = ()


def evolve(store: Store, base: TableState, changes: Changes, runtime: Runtime = SYSTEM) -> TableState:
    """One log entry. Of two that change columns at once the second is told to look again."""
    definition = evolved(base.definition, changes)

    def propose(state: TableState | None) -> Proposal:
        check_same_table(base, state, store.uri)
        return Proposal(action="evolve", definition=definition)

    return Log(store, WRITER, runtime).append(base, propose)


def evolved(definition: TableDefinition, changes: Changes) -> TableDefinition:
    """The definition with one more schema; everything that can be wrong is found here."""
    _check_shapes(changes)
    kept = _changed(definition, changes)
    fields = _reordered([*kept, *_added(definition, changes.add)], changes.reorder)
    schema = Schema(id=max(found.id for found in definition.schemas) + 1, fields=tuple(fields))
    _check_new_names(schema, changes)
    check_names(schema, "evolve")
    if schema.fields == definition.schema.fields:
        raise InvalidError("evolve has nothing to change; give add, drop, rename, widen or reorder")
    return replace(definition, schemas=(*definition.schemas, schema))


def _check_shapes(changes: Changes) -> None:
    """A text where a list belongs would be read letter by letter."""
    for name in ("drop", "reorder"):
        given = getattr(changes, name)
        if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(column, str) for column in given):
            raise InvalidError(f"{name} is {given!r}; give a list of column names")
        repeated = [column for column in given if list(given).count(column) > 1]
        if repeated:
            raise InvalidError(f"{name} names column {repeated[0]!r} twice; name each once")
    for name, example in (("add", "{'note': 'string'}"), ("rename", "{'old': 'new'}"), ("widen", "{'count': 'int64'}")):
        given = getattr(changes, name)
        if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
            raise InvalidError(f"{name} is {given!r}; give a mapping such as {example}")


def _check_new_names(schema: Schema, changes: Changes) -> None:
    """Names that a column is to get and another one has; Spark does not tell upper and lower case apart."""
    given = [(f"add[{name!r}]", name) for name in changes.add] + [(f"rename[{old!r}]", new) for old, new in changes.rename.items()]
    for argument, name in given:
        same = [found for found in schema.names if found.lower() == name.lower()]
        if len(same) > 1:
            raise InvalidError(
                f"{argument}: there would be the columns {same[0]!r} and {same[1]!r}, which Spark cannot tell apart; choose another name"
            )


def _changed(definition: TableDefinition, changes: Changes) -> list[Field]:
    """The columns that stay, under their new names and types."""
    schema = definition.schema
    dropped = {schema.field(name, "drop").id for name in changes.drop}
    _check_dropped(definition, dropped)
    renamed = {schema.field(old, "rename").id: new for old, new in changes.rename.items()}
    widened = {schema.field(name, "widen").id: text for name, text in changes.widen.items()}
    for argument, ids in (("rename", renamed), ("widen", widened)):
        for field_id in dropped.intersection(ids):
            name = schema.field_by_id(field_id).name
            raise InvalidError(f"{argument} names column {name!r}, which drop names as well; give it to one of them")
    kept = (found for found in schema.fields if found.id not in dropped)
    return [replace(_widened(found, widened.get(found.id)), name=renamed.get(found.id, found.name)) for found in kept]


def _check_dropped(definition: TableDefinition, dropped: Iterable[int]) -> None:
    roles = {
        "part of the key": definition.key,
        "what the partitions are computed from": [column.source for column in definition.partition_by],
        "in bloom_columns": definition.bloom_columns,
        "in a point index, which can be dropped": [field_id for index in definition.point_indexes for field_id in index.fields],
    }
    for field_id in dropped:
        for role, ids in roles.items():
            if field_id in ids:
                name = definition.schema.field_by_id(field_id).name
                raise InvalidError(f"drop names column {name!r}, which is {role}; keep it, or write its rows into a new table without it")


def _widened(column: Field, text: str | None) -> Field:
    if text is None:
        return column
    wide = _type_text(text, "widen", column.name)
    check_widening(column, wide)
    return replace(column, type=wide)


def _added(definition: TableDefinition, add: Mapping[str, str]) -> list[Field]:
    """New columns may be null, since the rows there are have no value for them."""
    highest = max(found.id for schema in definition.schemas for found in schema.fields)
    return [
        Field(id=field_id, name=name, type=_type_text(text, "add", name)) for field_id, (name, text) in enumerate(add.items(), highest + 1)
    ]


def _type_text(text: str, argument: str, name: str) -> str:
    tokens = Tokens(text, what=f"{argument}[{name!r}]")
    kind = read_type(tokens)
    if tokens.take("not"):
        raise InvalidError(f"{argument}[{name!r}] is {text!r}; rows that are there already have no value for it: leave out 'not null'")
    tokens.end()
    return type_text(kind, name)


def _reordered(fields: list[Field], names: Sequence[str]) -> list[Field]:
    by_name = {found.name: found for found in fields}
    for name in names:
        if name not in by_name:
            raise InvalidError(f"reorder names column {name!r}, which the table will not have; its columns will be {', '.join(by_name)}")
    first = [by_name[name] for name in names]
    return [*first, *(found for found in fields if found.name not in names)]
