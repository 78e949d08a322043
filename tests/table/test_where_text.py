"""`where` texts: every form that is understood, every other one refused with the part that is not."""

# Times without a zone are a type of column here.
# ruff: noqa: DTZ001

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from needlefish.errors import InvalidError
from needlefish.model.schema import schema_from_text
from needlefish.table.predicate import And, Compare, Constant, IsNull, Like, OneOf, Or, Predicate, parse_where

_SCHEMA = schema_from_text(
    "i int64, small int8, u uint64, s string, d double, f float, m decimal(5,2), b boolean, raw binary, day date, ts timestamp, wall timestamp_ntz, tags list<int32>, `a.b` int32, `select` int32"
)
_FIELDS = {field.name: field for field in _SCHEMA.fields}
_NEVER = Constant(value=None)


def _is(name: str, operator: Any, value: object) -> Predicate:
    return Compare(field=_FIELDS[name], operator=operator, value=value)


def _one_of(name: str, *values: object, negated: bool = False) -> Predicate:
    return OneOf(field=_FIELDS[name], values=values, negated=negated)


def _always(name: str) -> Predicate:
    return _one_of(name, negated=True)


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("s = 'a'", _is("s", "=", "a")),
        ("s == 'a'", _is("s", "=", "a")),
        ("s <> 'a'", _is("s", "!=", "a")),
        ("s != 'it''s'", _is("s", "!=", "it's")),
        (r"s = 'it\'s'", _is("s", "=", "it's")),
        ('s = "a"', _is("s", "=", "a")),
        ("'a' < s", _is("s", ">", "a")),
        ("'a' >= s", _is("s", "<=", "a")),
        ("i = -(-5)", _is("i", "=", 5)),
        ("i = 10L", _is("i", "=", 10)),
        ("i = 1e3", _is("i", "=", 1000)),
        ("i > 1", _is("i", ">=", 2)),
        ("i > 1.5", _is("i", ">=", 2)),
        ("i >= -1.5", _is("i", ">=", -1)),
        ("i < 1.5", _is("i", "<=", 1)),
        ("i <= -1.5", _is("i", "<=", -2)),
        ("i = 1.5", _one_of("i")),
        ("i != 1.5", _always("i")),
        ("small < 300", _always("small")),
        ("small > 300", _one_of("small")),
        ("small >= -300", _always("small")),
        ("small = 300", _one_of("small")),
        ("small < 128", _is("small", "<=", 127)),
        ("small > 127", _one_of("small")),
        ("u = -1", _one_of("u")),
        ("u = 18446744073709551615", _is("u", "=", 2**64 - 1)),
        ("i < 1e999999", _always("i")),
        ("i > -1e-999999", _is("i", ">=", 0)),
        ("i = 1." + "0" * 90 + "1", _one_of("i")),
        ("m = 1.005", _one_of("m")),
        ("m < 1.005", _is("m", "<=", Decimal("1.00"))),
        ("m > 1.005", _is("m", ">=", Decimal("1.01"))),
        ("m >= 1000", _one_of("m")),
        ("m = 7", _is("m", "=", Decimal("7.00"))),
        ("d = 1", _is("d", "=", 1.0)),
        ("d = 0.1", _is("d", "=", 0.1)),
        ("f = 0.1", _is("f", "=", 0.1)),
        ("b = true", _is("b", "=", True)),
        ("b", _is("b", "=", True)),
        ("not b", _is("b", "!=", True)),
        ("raw = X'0aff'", _is("raw", "=", b"\n\xff")),
        ("day = '2026-11-01'", _is("day", "=", date(2026, 11, 1))),
        ("day = DATE '2026-11-01'", _is("day", "=", date(2026, 11, 1))),
        ("ts >= '2026-11-01'", _is("ts", ">=", datetime(2026, 11, 1, tzinfo=UTC))),
        ("ts >= TIMESTAMP '2026-11-01 02:00:00+02:00'", _is("ts", ">=", datetime(2026, 11, 1, tzinfo=UTC))),
        ("wall < '2026-11-01T10:00:00.000001'", _is("wall", "<", datetime(2026, 11, 1, 10, 0, 0, 1))),
        ("i IN (1, 2.5, 3)", _one_of("i", 1, 3)),
        ("i IN (1, NULL)", Or(parts=(_one_of("i", 1), _NEVER))),
        ("i NOT IN (1, 2)", _one_of("i", 1, 2, negated=True)),
        ("i NOT IN (1, NULL)", And(parts=(_one_of("i", 1, negated=True), _NEVER))),
        ("i BETWEEN 1 AND 5", And(parts=(_is("i", ">=", 1), _is("i", "<=", 5)))),
        ("i NOT BETWEEN 1 AND 5", Or(parts=(_is("i", "<", 1), _is("i", ">", 5)))),
        ("tags IS NULL", IsNull(field=_FIELDS["tags"])),
        ("s IS NOT NULL", IsNull(field=_FIELDS["s"], negated=True)),
        ("s LIKE 'a%'", Like(field=_FIELDS["s"], pattern="a%")),
        ("s NOT LIKE 'a%'", Like(field=_FIELDS["s"], pattern="a%", negated=True)),
        ("NOT s NOT LIKE 'a%'", Like(field=_FIELDS["s"], pattern="a%")),
        ("s = NULL", _NEVER),
        ("NOT s = NULL", _NEVER),
        ("true", Constant(value=True)),
        ("NOT true", Constant(value=False)),
        ("null", _NEVER),
        ("NOT small < 300", _one_of("small")),
        ("NOT (i = 1 AND NOT s > 'a')", Or(parts=(_is("i", "!=", 1), _is("s", ">", "a")))),
        ("NOT (i = 1 OR i IS NULL)", And(parts=(_is("i", "!=", 1), IsNull(field=_FIELDS["i"], negated=True)))),
        ("`a.b` = 1", _is("a.b", "=", 1)),
        ("`select` = 1", _is("select", "=", 1)),
        ("i = 1 -- a remark", _is("i", "=", 1)),
    ],
)
def test_a_form_that_is_understood(where: str, wanted: Predicate) -> None:
    assert parse_where(where, _SCHEMA) == wanted


def test_nan_can_be_written() -> None:
    found = parse_where("d = CAST('NaN' AS DOUBLE)", _SCHEMA)
    assert isinstance(found, Compare)
    assert found.value != found.value


@pytest.mark.parametrize(
    ("where", "part"),
    [
        ("i + 1 = 2", r"'i \+ 1' is not supported"),
        ("abs(i) = 1", r"'ABS\(i\)' is not supported"),
        ("i = s", "'s' is not supported"),
        ("1 = 1", "'1' is not supported"),
        ("i IN (SELECT 1)", r"'i IN \(SELECT 1\)' is not supported"),
        ("i IN ()", r"'i IN \(\)' is not supported"),
        ("i BETWEEN SYMMETRIC 5 AND 1", "BETWEEN 5 AND 1.* is not supported"),
        ("s LIKE 'a!%' ESCAPE '!'", "ESCAPE '!'.* is not supported"),
        ("s ILIKE 'A'", "ILIKE 'A'.* is not supported"),
        ("s RLIKE 'a'", "RLIKE 'a'.* is not supported"),
        ("s LIKE ANY ('a', 'b')", r"ANY \('a', 'b'\).* is not supported"),
        ("i <=> 1", "IS NOT DISTINCT FROM 1' is not supported"),
        ("b IS TRUE", "'b IS TRUE' is not supported"),
        ("(i = 1) IS NULL", r"'\(i = 1\)' is not supported"),
        ("t.i = 1", "'t.i' is not supported"),
        ("tags[0] = 1", r"'tags\[0\]' is not supported"),
        ("i = CAST('abc' AS DOUBLE)", r"CAST\('abc' AS DOUBLE\).* is not supported"),
        ("m = 1.5BD", "DECIMAL.* is not supported"),
        ("i = current_timestamp()", r"'CURRENT_TIMESTAMP\(\)' is not supported"),
        ("CASE WHEN b THEN true END", "'CASE WHEN b THEN TRUE END' is not supported"),
        ("EXISTS (SELECT 1)", r"EXISTS\(SELECT 1\).* is not supported"),
        ("i = ?", r"'\?' is not supported"),
        ("i = 1 GROUP BY i", "cannot be read as a condition: .* near 'GROUP BY' at position 6"),
        ("i = 1; DROP TABLE t", "cannot be read as a condition: .* near 'DROP' at position"),
        ("(i = 1", "cannot be read as a condition: Expecting \\), near '1' at position 5"),
        ("i = 1 AND", "cannot be read as a condition: .* near 'AND' at position 6"),
        ("s = 'open", "cannot be read as a condition"),
        ("nobody = 1", "where names column 'nobody', which the table does not have; its columns are i, small"),
        ("i", "column 'i' of type int64 is not a condition; compare it with something"),
        ("tags = 1", "column 'tags' of type list<int32>; nested columns can only be tested with IS NULL"),
        ("tags IN (1)", "column 'tags' of type list<int32>"),
        ("i LIKE 'a'", "LIKE compares a string column with a quoted pattern; 'i' is int64"),
        ("s LIKE NULL", "LIKE compares a string column with a quoted pattern"),
        (r"s LIKE 'a\\_b'", "escapes in LIKE patterns are not supported"),
        ("i = '5'", "where i is '5', which is no value of type int64: it is a text; write the number without quotes"),
        ("s = 5", "where s is 5, which is no value of type string: give a text"),
        ("b = 1", "where b is 1, which is no value of type bool"),
        ("raw = 'a'", "where raw is 'a', which is no value of type binary: give bytes"),
        ("day = '2026-13-01'", "where day is '2026-13-01', which is no value of type date32"),
        ("wall = '2026-11-01T00:00:00Z'", "the column belongs to no zone; leave the zone out"),
        ("i = CAST('inf' AS DOUBLE)", "where i is compared with inf, but int64 holds finite numbers only"),
        ("", "where is ''; give a condition such as"),
        ("  ", "give a condition such as"),
        (5, "where is 5; give a condition"),
    ],
)
def test_a_form_that_is_not_understood_is_refused_with_the_part(where: Any, part: str) -> None:
    with pytest.raises(InvalidError, match=part):
        parse_where(where, _SCHEMA)
