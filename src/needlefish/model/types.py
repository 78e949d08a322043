"""Column types: their text on storage, and the Arrow type that carries them.

The text is what the log and the command line use: `int64`, `decimal(12,2)`, `timestamp`, `list<string>`,
`struct<lat:double,lon:double>`. Spark's and SQL's usual names are read as well, never written.
"""

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.model.text import Tokens

# Do not rename: these texts are in every log.
PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    # An instant, kept in UTC whatever zone it was written with.
    "timestamp": pa.timestamp("us", tz="UTC"),
    # A wall-clock reading that belongs to no zone.
    "timestamp_ntz": pa.timestamp("us"),
}

_ALIASES = {
    "bool": "boolean",
    "tinyint": "int8",
    "byte": "int8",
    "smallint": "int16",
    "short": "int16",
    "int": "int32",
    "integer": "int32",
    "bigint": "int64",
    "long": "int64",
    "real": "float",
    "float32": "float",
    "float64": "double",
    "str": "string",
    "text": "string",
    "varchar": "string",
    "bytes": "binary",
    "date32": "date",
    "timestamp_ltz": "timestamp",
    "timestamptz": "timestamp",
}
_TEXT_OF = {kind: text for text, kind in PRIMITIVES.items()}


@lru_cache(maxsize=1024)
def parse_type(text: str) -> pa.DataType:
    """The Arrow type that a type text names."""
    tokens = Tokens(text, what="type")
    found = read_type(tokens)
    tokens.end()
    return found


def read_type(tokens: Tokens) -> pa.DataType:
    """Reads one type from the front of `tokens`."""
    word = tokens.word("a type name").lower()
    if word in _NESTED:
        return _NESTED[word](tokens)
    if word in ("decimal", "numeric"):
        return _read_decimal(tokens)
    kind = PRIMITIVES.get(_ALIASES.get(word, word))
    if kind is None:
        known = ", ".join(PRIMITIVES)
        raise InvalidError(
            f"{tokens.what} {tokens.text!r}: there is no type {word!r}; use one of {known}, decimal(p,s), list<>, struct<>, map<>"
        )
    return kind


def _read_decimal(tokens: Tokens) -> pa.DataType:
    tokens.expect("(")
    precision = tokens.number()
    scale = tokens.number() if tokens.take(",") else 0
    tokens.expect(")")
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise InvalidError(
            f"{tokens.what} {tokens.text!r}: decimal({precision},{scale}) is out of range; precision is 1 to 38 and scale 0 to precision"
        )
    return pa.decimal128(precision, scale)


def _read_list(tokens: Tokens) -> pa.DataType:
    tokens.expect("<")
    element = read_type(tokens)
    tokens.expect(">")
    return pa.list_(pa.field("element", element))


def _read_map(tokens: Tokens) -> pa.DataType:
    tokens.expect("<")
    key = read_type(tokens)
    tokens.expect(",")
    value = read_type(tokens)
    tokens.expect(">")
    return pa.map_(key, value)


def _read_struct(tokens: Tokens) -> pa.DataType:
    tokens.expect("<")
    fields: list[pa.Field] = []
    while not fields or tokens.take(","):
        name = tokens.word("a field name")
        tokens.expect(":")
        fields.append(pa.field(name, read_type(tokens)))
    tokens.expect(">")
    return pa.struct(fields)


_NESTED: dict[str, Callable[[Tokens], pa.DataType]] = {"list": _read_list, "array": _read_list, "map": _read_map, "struct": _read_struct}


def type_text(kind: pa.DataType, column: str) -> str:
    """The text of an Arrow type, in the form storage keeps; `column` is named when there is none."""
    if kind in _TEXT_OF:
        return _TEXT_OF[kind]
    if pa.types.is_decimal(kind):
        return _decimal_text(kind, column)
    if pa.types.is_timestamp(kind):
        return _timestamp_text(kind, column)
    if pa.types.is_dictionary(kind):
        return type_text(kind.value_type, column)
    if pa.types.is_struct(kind):
        _check_struct(kind, column)
        return "struct<" + ",".join(f"{quote_name(f.name)}:{type_text(f.type, column)}" for f in kind) + ">"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type, column)},{type_text(kind.item_type, column)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list<{type_text(kind.value_type, column)}>"
    return _wide_text(kind, column)


def _check_struct(kind: pa.DataType, column: str) -> None:
    names = [field.name for field in kind]
    if not names or not all(names) or len(set(names)) < len(names):
        raise InvalidError(
            f"column {column!r} has type {kind}; a struct has at least one field, and each a name of its own: rename or drop them"
        )


def _wide_text(kind: pa.DataType, column: str) -> str:
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return "binary"
    known = ", ".join(PRIMITIVES)
    raise InvalidError(
        f"column {column!r} has type {kind}, which a table cannot hold; cast it to {known}, decimal(p,s) or a list, struct or map of these"
    )


def _decimal_text(kind: pa.DataType, column: str) -> str:
    if kind.precision > 38 or kind.scale < 0 or kind.scale > kind.precision:
        raise InvalidError(
            f"column {column!r} has type {kind}; a table holds decimals of precision 1 to 38 and scale 0 to precision: cast it"
        )
    return f"decimal({kind.precision},{kind.scale})"


def _timestamp_text(kind: pa.DataType, column: str) -> str:
    if kind.unit == "ns":
        raise InvalidError(f"column {column!r} has type {kind}; a table keeps microseconds, as Spark does: cast it to timestamp('us')")
    return "timestamp_ntz" if kind.tz is None else "timestamp"


def quote_name(name: str) -> str:
    """A name as it may stand in a type text: bare where it is plain, in backquotes otherwise."""
    plain = name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"


def is_nested(kind: pa.DataType) -> bool:
    """Nested columns are carried but never part of a key, a partition or an index."""
    return bool(pa.types.is_nested(kind))
