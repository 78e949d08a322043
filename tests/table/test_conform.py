"""Rows as somebody delivers them, made into rows of the table, without loss or refused."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import schema_from_text
from needlefish.table.conform import check_columns, conform
from needlefish.table.create import define_table


def _definition(schema: str) -> TableDefinition:
    return define_table(schema_from_text(schema), "id", (), {})


_DEFINITION = _definition("id int64, s string, n int32 not null, m decimal(10,2), u uint64, tags list<string>")


def test_columns_that_fit_pass() -> None:
    check_columns({"n": "int16", "id": "int32", "m": "decimal(5,1)", "u": "decimal(20,0)"}, _DEFINITION)


@pytest.mark.parametrize(
    ("delivered", "complaint"),
    [
        (
            {"id": "int64", "n": "int32", "x": "int32"},
            "df has column 'x', which the table does not have; drop it, or rename it to one of id, s",
        ),
        ({"n": "int32"}, r"df lacks column 'id' \(int64\), which every row must have; add it"),
        ({"id": "int64"}, r"df lacks column 'n' \(int32\)"),
        ({"id": "string", "n": "int32"}, "df column 'id' is string, but the table has int64; cast it first"),
        ({"id": "int64", "n": "int64"}, "df column 'n' is int64, but the table has int32"),
        ({"id": "int64", "n": "int32", "m": "decimal(10,3)"}, r"df column 'm' is decimal\(10,3\)"),
        ({"id": "int64", "n": "int32", "m": "decimal(11,2)"}, r"df column 'm' is decimal\(11,2\)"),
        ({"id": "int64", "n": "int32", "m": "double"}, "df column 'm' is double"),
        ({"id": "double", "n": "int32"}, "df column 'id' is double"),
    ],
)
def test_columns_that_do_not_fit_are_refused(delivered: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidError, match=complaint):
        check_columns(delivered, _DEFINITION)


def test_rows_get_order_types_and_missing_columns() -> None:
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([7], pa.int8()),
            pa.array([1], pa.int32()),
            pa.array([Decimal("1.5")], pa.decimal128(3, 1)),
            pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)),
        ],
        names=["n", "id", "m", "u"],
    )
    found = conform(rows, _DEFINITION)
    assert found.schema == _DEFINITION.schema.to_arrow()
    assert found.to_pylist() == [{"id": 1, "s": None, "n": 7, "m": Decimal("1.50"), "u": 2**64 - 1, "tags": None}]


@pytest.mark.parametrize(
    ("kind", "value", "delivered"),
    [
        ("uint8", 256, pa.int64()),
        ("uint8", -1, pa.int64()),
        ("uint64", -1, pa.int64()),
        ("uint64", Decimal(2**64), pa.decimal128(20, 0)),
        ("decimal(3,1)", Decimal("123.4"), pa.decimal128(4, 1)),
    ],
)
def test_values_out_of_range_are_refused(kind: str, value: Any, delivered: pa.DataType) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([value], delivered)], names=["id", "v"])
    with pytest.raises(InvalidError, match="df column 'v' does not fit"):
        conform(rows, _definition(f"id int64, v {kind}"))


def test_nulls_are_refused_where_there_may_be_none() -> None:
    rows = pa.RecordBatch.from_pylist([{"id": 1, "n": 5, "s": "x" * 500}, {"id": 2, "n": None, "s": "y" * 500}])
    with pytest.raises(
        InvalidError, match=r"df has a null in column 'n', in the row {'id': 2, 's': 'yyy.*…; every row needs a value there"
    ):
        conform(rows, _DEFINITION)


@pytest.mark.parametrize(
    ("kind", "delivered", "value"),
    [
        ("list<int32>", pa.list_(pa.field("item", pa.int32(), nullable=False)), [1, 2]),
        ("list<int32>", pa.large_list(pa.int32()), [1, 2]),
        ("list<int32>", pa.list_(pa.int32(), 2), [1, 2]),
        ("struct<a:int32,b:string>", pa.struct([pa.field("a", pa.int32(), nullable=False), ("b", pa.string())]), {"a": 1, "b": None}),
        ("map<string,int32>", pa.map_(pa.string(), pa.field("v", pa.int32(), nullable=False)), [("a", 1)]),
        ("string", pa.large_string(), "x"),
        ("string", pa.dictionary(pa.int32(), pa.string()), "x"),
        ("string", pa.string_view(), "x"),
        ("binary", pa.binary(2), b"ab"),
        ("timestamp", pa.timestamp("ms", "Europe/Berlin"), None),
    ],
)
def test_the_same_in_another_coat_is_taken(kind: str, delivered: pa.DataType, value: Any) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([value, None], delivered)], names=["id", "v"])
    found = conform(rows, _definition(f"id int64, v {kind}"))
    assert found["v"].to_pylist() == [value, None]
    assert found.schema == _definition(f"id int64, v {kind}").schema.to_arrow()


@pytest.mark.parametrize("column", ["t timestamp", "d date"])
@pytest.mark.parametrize("sign", [1, -1])
def test_times_outside_the_calendar_are_refused(column: str, sign: int) -> None:
    definition = define_table(schema_from_text(f"id string, {column}"), "id", (), {})
    field = definition.schema.fields[1]
    far = pa.array([None, 0, sign * 2**30], pa.int32()) if column == "d date" else pa.array([None, 0, sign * 2**60], pa.int64())
    rows = pa.RecordBatch.from_arrays([pa.array(["a", "b", "c"]), far.cast(field.arrow_type)], names=["id", field.name])
    with pytest.raises(InvalidError, match=rf"column '{field.name}' has the .* since 1970, which is in no year from 1 to 9999"):
        conform(rows, definition)
