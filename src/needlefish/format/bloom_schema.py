"""The leaf columns of a Parquet schema: where each lies, how it is stored, and which Arrow type its values have.

Only what hashing a value needs; nesting is flattened to dotted paths, as column chunks are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from needlefish.format.thrift import BYTE, I32, STRUCT, CompactReader

_UNITS = {1: "ms", 2: "us", 3: "ns"}
# Parquet's physical types by number: BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY.
_BARE = {0: pa.bool_(), 1: pa.int32(), 2: pa.int64(), 3: pa.timestamp("ns"), 4: pa.float32(), 5: pa.float64(), 6: pa.binary()}
# Converted types, which older writers state instead of a logical type; decimals are handled apart.
_CONVERTED = {
    0: pa.string(),
    4: pa.string(),
    6: pa.date32(),
    7: pa.time32("ms"),
    8: pa.time64("us"),
    9: pa.timestamp("ms", tz="UTC"),
    10: pa.timestamp("us", tz="UTC"),
    11: pa.uint8(),
    12: pa.uint16(),
    13: pa.uint32(),
    14: pa.uint64(),
    15: pa.int8(),
    16: pa.int16(),
    17: pa.int32(),
    18: pa.int64(),
    19: pa.string(),
}
_DECIMAL = 5
# Paths are spelled out for every leaf: without a bound, hostile nesting would take quadratic memory.
_MAX_GROUPS = 100
# Logical types without fields of their own, by their number in the union.
_SIMPLE_LOGICAL = {1: pa.string(), 4: pa.string(), 6: pa.date32(), 12: pa.string(), 14: pa.uuid(), 15: pa.float16()}
_INTEGERS = {(bits, signed): getattr(pa, f"{'' if signed else 'u'}int{bits}")() for bits in (8, 16, 32, 64) for signed in (True, False)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafColumn:
    """One column of values. `kind` is None when the file's type has no Arrow counterpart here."""

    path: str
    physical: int
    type_length: int | None
    kind: pa.DataType | None


@dataclass(slots=True)
class _Element:
    name: str = ""
    physical: int | None = None
    type_length: int | None = None
    children: int = 0
    converted: int | None = None
    scale: int = 0
    precision: int = 0
    logical: pa.DataType | None = None


def read_leaves(reader: CompactReader, kind: int) -> tuple[LeafColumn, ...]:
    """The leaves of a footer's schema list, in the order of column chunks."""
    elements = [_read_element(reader, item) for item in reader.items(kind, STRUCT)]
    if not elements:
        raise reader.corrupt("the schema is empty")
    leaves: list[LeafColumn] = []
    # One entry per open group: the path down to it, and how many of its children are still to come.
    open_groups: list[tuple[str, int]] = [("", elements[0].children)]
    for element in elements[1:]:
        while open_groups and open_groups[-1][1] == 0:
            open_groups.pop()
        if not open_groups:
            raise reader.corrupt("the schema has more elements than its groups have children")
        prefix, left = open_groups.pop()
        open_groups.append((prefix, left - 1))
        if element.physical is None:
            open_groups.append((f"{prefix}{element.name}.", element.children))
            if len(open_groups) > _MAX_GROUPS:
                raise reader.corrupt(f"the schema nests deeper than {_MAX_GROUPS} groups")
        else:
            leaves.append(_leaf(element, prefix))
    if any(left for _, left in open_groups):
        raise reader.corrupt("the schema has fewer elements than its groups have children")
    return tuple(leaves)


def _leaf(element: _Element, prefix: str) -> LeafColumn:
    assert element.physical is not None
    return LeafColumn(path=prefix + element.name, physical=element.physical, type_length=element.type_length, kind=_arrow_type(element))


def _arrow_type(element: _Element) -> pa.DataType | None:
    if element.logical is not None:
        return element.logical
    if element.converted == _DECIMAL:
        return _decimal(element.precision, element.scale)
    if element.converted is not None:
        return _CONVERTED.get(element.converted)
    if element.physical == 7:
        return pa.binary(element.type_length) if element.type_length and element.type_length > 0 else None
    return _BARE.get(element.physical if element.physical is not None else -1)


def _decimal(precision: int, scale: int) -> pa.DataType | None:
    if not 1 <= precision <= 76 or not 0 <= scale <= precision:
        return None
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _read_element(reader: CompactReader, kind: int) -> _Element:
    element = _Element()
    for field, inner in reader.struct(kind):
        if field in _NUMBERS:
            setattr(element, _NUMBERS[field], reader.number(inner, I32))
        elif field == 4:
            element.name = reader.text(inner)
        elif field == 10:
            element.logical = _read_logical(reader, inner)
        else:
            reader.skip(inner)
    return element


_NUMBERS = {1: "physical", 2: "type_length", 5: "children", 6: "converted", 7: "scale", 8: "precision"}


def _read_logical(reader: CompactReader, kind: int) -> pa.DataType | None:
    found: pa.DataType | None = None
    for member, inner in reader.struct(kind):
        found = _LOGICAL[member](reader, inner) if member in _LOGICAL else _SIMPLE_LOGICAL.get(member)
        if member not in _LOGICAL:
            reader.skip(inner)
    return found


def _read_decimal(reader: CompactReader, kind: int) -> pa.DataType | None:
    parts = {1: 0, 2: 0}
    for field, inner in reader.struct(kind):
        if field in parts:
            parts[field] = reader.number(inner, I32)
        else:
            reader.skip(inner)
    return _decimal(parts[2], parts[1])


def _read_integer(reader: CompactReader, kind: int) -> pa.DataType | None:
    bits, signed = 0, False
    for field, inner in reader.struct(kind):
        if field == 1:
            bits = reader.number(inner, BYTE)
        elif field == 2:
            signed = reader.boolean(inner)
        else:
            reader.skip(inner)
    return _INTEGERS.get((bits, signed))


def _read_time(reader: CompactReader, kind: int) -> pa.DataType | None:
    _, unit = _read_adjusted_unit(reader, kind)
    return None if unit is None else pa.time32(unit) if unit == "ms" else pa.time64(unit)


def _read_timestamp(reader: CompactReader, kind: int) -> pa.DataType | None:
    adjusted, unit = _read_adjusted_unit(reader, kind)
    return None if unit is None else pa.timestamp(unit, tz="UTC" if adjusted else None)


def _read_adjusted_unit(reader: CompactReader, kind: int) -> tuple[bool, str | None]:
    adjusted, unit = False, None
    for field, inner in reader.struct(kind):
        if field == 1:
            adjusted = reader.boolean(inner)
        elif field == 2:
            unit = _read_unit(reader, inner)
        else:
            reader.skip(inner)
    return adjusted, unit


def _read_unit(reader: CompactReader, kind: int) -> str | None:
    unit = None
    for member, inner in reader.struct(kind):
        unit = _UNITS.get(member)
        reader.skip(inner)
    return unit


_Read = Callable[[CompactReader, int], pa.DataType | None]
_LOGICAL: dict[int, _Read] = {
    5: _read_decimal,
    7: _read_time,
    8: _read_timestamp,
    10: _read_integer,
}
