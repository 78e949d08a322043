"""Values that callers give, as values of a column: exact, or refused by name."""

# Times without a zone are a type of column here.
# ruff: noqa: DTZ001

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from needlefish.errors import InvalidError
from needlefish.model.types import parse_type
from needlefish.table.values import coerce_value

_PLUS_TWO = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (True, "boolean", True),
        (5, "int8", 5),
        (5.0, "int8", 5),
        (Decimal("5.00"), "int64", 5),
        (2**64 - 1, "uint64", 2**64 - 1),
        (1, "double", 1.0),
        (0.1, "double", 0.1),
        (0.1, "float", 0.10000000149011612),
        (Decimal("0.5"), "float", 0.5),
        (7, "decimal(5,2)", Decimal("7.00")),
        (0.25, "decimal(5,2)", Decimal("0.25")),
        (Decimal("99999999999999999999999999999999999999"), "decimal(38,0)", Decimal("99999999999999999999999999999999999999")),
        ("text", "string", "text"),
        (b"\x00", "binary", b"\x00"),
        (bytearray(b"a"), "binary", b"a"),
        (date(2026, 1, 2), "date", date(2026, 1, 2)),
        ("2026-01-02", "date", date(2026, 1, 2)),
        ("2026-01-02", "timestamp", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02T03:04:05.000006Z", "timestamp", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (datetime(2026, 1, 2, 2, tzinfo=_PLUS_TWO), "timestamp", datetime(2026, 1, 2, tzinfo=UTC)),
        (datetime(2026, 1, 2), "timestamp", datetime(2026, 1, 2, tzinfo=UTC)),
        (date(2026, 1, 2), "timestamp_ntz", datetime(2026, 1, 2)),
    ],
)
def test_a_value_fits(value: object, kind: str, wanted: object) -> None:
    found = coerce_value(value, parse_type(kind), "x")
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ("5", "int8", 5),
        ("true", "boolean", True),
        ("0.5", "double", 0.5),
        ("nan", "double", None),
        ("-1.5", "decimal(5,2)", Decimal("-1.50")),
        ("00ff", "binary", b"\x00\xff"),
    ],
)
def test_texts_are_values_where_texts_are_all_there_is(value: str, kind: str, wanted: object) -> None:
    found = coerce_value(value, parse_type(kind), "x", texts=True)
    assert found == wanted or (wanted is None and found != found)
    with pytest.raises(InvalidError):
        coerce_value(value, parse_type(kind), "x")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "boolean"),
        ("yes", "boolean"),
        (True, "int8"),
        (128, "int8"),
        (-1, "uint8"),
        (1.5, "int64"),
        (float("nan"), "int64"),
        (float("inf"), "int64"),
        (2**63, "int64"),
        ("1", "double"),
        (True, "double"),
        (0.1, "decimal(5,2)"),
        (1000, "decimal(5,2)"),
        (Decimal("NaN"), "decimal(5,2)"),
        (Decimal("Infinity"), "decimal(5,2)"),
        (5, "string"),
        (b"a", "string"),
        ("a", "binary"),
        (5, "date"),
        (datetime(2026, 1, 1), "date"),
        ("2026-13-01", "date"),
        ("noon", "timestamp"),
        (5, "timestamp"),
        (datetime(2026, 1, 1, tzinfo=UTC), "timestamp_ntz"),
        (datetime(1, 1, 1, tzinfo=_PLUS_TWO), "timestamp"),
        (None, "int8"),
        ([1], "list<int32>"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_name(value: object, kind: str) -> None:
    with pytest.raises(InvalidError) as caught:
        coerce_value(value, parse_type(kind), "key_range, column 'k',")
    assert str(caught.value).startswith(
        f"key_range, column 'k', is {value!r}, which is no value of type {pa.types.lib.ensure_type(parse_type(kind))}"
    )
