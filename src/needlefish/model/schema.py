"""Fields and schemas. A column is known by its field id; its name may change, its id never does."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.model.text import Tokens
from needlefish.model.types import parse_type, read_type, type_text

# Parquet files carry the field id here, so that any reader can match columns by id.
PARQUET_ID = b"PARQUET:field_id"

# Names that start like this are the pipeline's own (`_needlefish_partition`, ...).
RESERVED = "_needlefish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column."""

    id: int
    name: str
    type: str
    nullable: bool = True

    @property
    def arrow_type(self) -> pa.DataType:
        return parse_type(self.type)

    def to_arrow(self) -> pa.Field:
        return _arrow_field(self)


@lru_cache(maxsize=4096)
def _arrow_field(field: Field) -> pa.Field:
    """Kept, since a find asks for the same few again and again."""
    return pa.field(field.name, field.arrow_type, nullable=field.nullable, metadata={PARQUET_ID: str(field.id).encode()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The columns of a table at some version, in order."""

    id: int
    fields: tuple[Field, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def field(self, name: str, argument: str) -> Field:
        """The field called `name`; `argument` is what the caller's error should name."""
        for found in self.fields:
            if found.name == name:
                return found
        raise InvalidError(f"{argument} names column {name!r}, which the table does not have; its columns are {', '.join(self.names)}")

    def field_by_id(self, field_id: int) -> Field:
        return next(found for found in self.fields if found.id == field_id)

    def to_arrow(self) -> pa.Schema:
        return pa.schema([field.to_arrow() for field in self.fields])


def schema_from_arrow(arrow: pa.Schema) -> Schema:
    """Field ids count from 1 in column order."""
    fields = (Field(id=n, name=f.name, type=type_text(f.type, f.name), nullable=f.nullable) for n, f in enumerate(arrow, 1))
    return _checked(fields)


def schema_from_text(text: str) -> Schema:
    """Reads `name type [not null], ...`."""
    tokens = Tokens(text, what="schema")
    fields: list[Field] = []
    while not fields or tokens.take(","):
        fields.append(_read_field(tokens, len(fields) + 1))
    tokens.end()
    return _checked(fields)


def _read_field(tokens: Tokens, field_id: int) -> Field:
    name = tokens.word("a column name")
    tokens.take(":")
    kind = read_type(tokens)
    required = tokens.take("not")
    if required:
        tokens.expect("null")
    return Field(id=field_id, name=name, type=type_text(kind, name), nullable=not required)


def _checked(fields: Iterable[Field]) -> Schema:
    schema = Schema(id=1, fields=tuple(fields))
    check_names(schema, "schema")
    return schema


def check_names(schema: Schema, argument: str) -> None:
    """Refuses names that no table can have; `argument` is what the caller's error should name."""
    if not schema.fields:
        raise InvalidError(f"{argument} has no columns; give at least the key's")
    folded: dict[str, str] = {}
    for name in schema.names:
        if not name or name.lower().startswith(RESERVED):
            raise InvalidError(f"{argument} has a column named {name!r}; names are not empty and do not start with {RESERVED!r}: rename it")
        # Spark resolves names without regard to case, so two that differ in case alone could not be told apart there.
        if name.lower() in folded:
            raise InvalidError(
                f"{argument} has the columns {folded[name.lower()]!r} and {name!r}, which Spark cannot tell apart; rename one"
            )
        folded[name.lower()] = name
