"""Random predicates over random rows: a scan returns exactly the rows that plain Python finds, however it prunes.

Python evaluates with SQL's three values; NaN is the greatest number and equal to itself, as in Spark and DuckDB.
"""

# Times without a zone are a type of column here.
# ruff: noqa: DTZ001

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.store import open_store
from needlefish.testing.tables import append_rows, build_table, scan_table

_numbers = count()

_TEXTS = ["", "a", "ab", "abc", "b", "B", "a%", "a_c", "ä", "\U0001f41f", "a\nb", "zz", "it's"]
_TIMES = [
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1970, 1, 1),
    datetime(2026, 2, 28, 23),
    datetime(2026, 3, 1),
    datetime(2026, 3, 1, 0, 30, 0, 1),
]
_POOLS: dict[str, list[Any]] = {
    "int8": [-128, -11, -10, -1, 0, 1, 9, 10, 127],
    "int64": [-(2**63), -10, -1, 0, 1, 10, 99, 2**53 + 1, 2**63 - 1],
    "uint64": [0, 1, 10, 2**63, 2**64 - 1],
    "float": [math.nan, -math.inf, -1.5, -0.0, 0.0, 0.5, 0.10000000149011612, 1.5, math.inf],
    "double": [math.nan, -math.inf, -1.5, -0.0, 0.0, 0.1, 0.5, 1.5, 1e300, math.inf],
    "decimal(5,2)": [Decimal(text) for text in ("-999.99", "-0.01", "0.00", "0.01", "1.00", "1.01", "999.99")],
    "boolean": [True, False],
    "string": _TEXTS,
    "binary": [b"", b"\x00", b"\x00\x00", b"\x00\xff", b"a", b"\xff\xff"],
    "date": [time.date() for time in _TIMES] + [date(1582, 1, 1)],
    "timestamp": [time.replace(tzinfo=UTC) for time in _TIMES],
    "timestamp_ntz": _TIMES,
}
# What a predicate may compare with beyond what is in the column.
_MORE: dict[str, list[Any]] = {
    "int8": [-129, 128, 300, Decimal("0.5"), Decimal("-10.5"), Decimal("1e30")],
    "int64": [2**63, -(2**63) - 1, Decimal("0.5"), Decimal("-1e30")],
    "uint64": [-1, 2**64, Decimal("0.5")],
    "float": [0.1, -2.0],
    "double": [0.25],
    "decimal(5,2)": [Decimal("0.005"), Decimal("1.005"), Decimal("1000"), -1000, 1],
    "string": ["aa", "c"],
    "binary": [b"b"],
    "date": [date(2000, 1, 1)],
    "timestamp": [datetime(2026, 3, 1, 0, 30, tzinfo=UTC)],
    "timestamp_ntz": [datetime(2026, 3, 1, 0, 30)],
}
# Columns beside the key; `k_` ones are never null and take turns as the leading key column.
_TYPES = {kind.partition("(")[0]: kind for kind in _POOLS}
_COLUMNS = {f"c_{name}": kind for name, kind in _TYPES.items()} | {f"k_{name}": kind for name, kind in _TYPES.items()}
_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items()) + ", id int32"

_PARTITIONS = [
    [],
    *([f"c_{name}"] for name in _TYPES if name not in ("float", "double")),
    *([f"bucket(c_{name}, 3)"] for name in _TYPES if name not in ("float", "double", "boolean")),
    ["get_or_else(c_string, 'ab')"],
    ["get_or_else(c_int64, 10)"],
    ["get_or_else(c_timestamp, '2026-03-01')"],
    ["get_or_else(c_decimal, 1.01)"],
    *([f"round(c_{name}, 10)"] for name in ("int8", "int64", "uint64", "double")),
    ["round(c_float, 0.5)"],
    *([f"{unit}(c_{name})"] for unit in ("year", "month", "day") for name in ("date", "timestamp", "timestamp_ntz")),
    *([f"hour(c_{name})"] for name in ("timestamp", "timestamp_ntz")),
    *([f"time_slice(c_{name}, '7h')"] for name in ("timestamp", "timestamp_ntz")),
    ["prefix(c_string, 1)"],
    ["prefix(k_string, 2)"],
    ["constant('x')"],
    ["constant('x')", "day(c_timestamp)", "prefix(c_string, 1)"],
    ["year(c_timestamp)", "month(c_timestamp)"],
]

Row = dict[str, Any]
# A predicate as the SQL that needlefish reads and as a tree for Python.
Node = tuple[Any, ...]


def _rows() -> st.SearchStrategy[list[Row]]:
    cells = {name: st.sampled_from(_POOLS[kind]) for name, kind in _COLUMNS.items()}
    nullable = {name: st.none() | cell if name.startswith("c_") else cell for name, cell in cells.items()}
    return st.lists(st.fixed_dictionaries(nullable), min_size=1, max_size=24)


def _leaf(name: str) -> st.SearchStrategy[Node]:
    kind = _COLUMNS[name]
    value = st.sampled_from(_POOLS[kind] + _MORE.get(kind, []))
    sign = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    leaves = [
        st.tuples(st.just("compare"), st.just(name), sign, value),
        st.tuples(st.just("compare"), st.just(name), st.just("="), value),
        st.tuples(st.just("in"), st.just(name), st.lists(st.none() | value, min_size=1, max_size=3)),
        st.tuples(st.just("between"), st.just(name), value, value),
        st.tuples(st.just("null"), st.just(name)),
    ]
    if kind == "string":
        patterns = st.sampled_from(["a%", "%b%", "_", "a_", "%", "", "a", "ä%", "%c", "a%b"])
        leaves.append(st.tuples(st.just("like"), st.just(name), patterns))
    return st.one_of(leaves)


def _trees() -> st.SearchStrategy[Node]:
    leaf = st.sampled_from(list(_COLUMNS)).flatmap(_leaf)
    return st.recursive(
        leaf, lambda inner: st.tuples(st.just("not"), inner) | st.tuples(st.sampled_from(["and", "or"]), inner, inner), max_leaves=5
    )


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value)
        case float():
            return f"CAST('{value}' AS DOUBLE)"
        case str():
            return "'" + value.replace("'", "''").replace("\n", "\\n") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime() | date():
            return f"'{value.isoformat()}'"
    return str(value)


def _sql(node: Node) -> str:
    match node:
        case ("compare", name, sign, value):
            return f"{name} {sign} {_literal(value)}"
        case ("in", name, values):
            return f"{name} IN ({', '.join(map(_literal, values))})"
        case ("between", name, low, high):
            return f"{name} BETWEEN {_literal(low)} AND {_literal(high)}"
        case ("null", name):
            return f"{name} IS NULL"
        case ("like", name, pattern):
            return f"{name} LIKE {_literal(pattern)}"
        case ("not", ("like" | "in" | "between" as kind, *_) as inner) if len(_sql(inner)) % 2:
            # Every other one as `x NOT LIKE y`, which means the same and is parsed in another way.
            return _sql(inner).replace(f" {kind.upper()} ", f" NOT {kind.upper()} ", 1)
        case ("not", inner):
            return f"NOT ({_sql(inner)})"
    return f"({_sql(node[1])}) {node[0].upper()} ({_sql(node[2])})"


def _order(value: Any) -> tuple[int, Any]:
    """NaN after all numbers."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def _compared(left: Any, sign: str, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    one, other = _order(left), _order(right)
    return {"=": one == other, "!=": one != other, "<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[sign]


def _like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_like(text[at:], pattern[1:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _like(text[1:], pattern[1:])


def _either(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _answer(node: Node, row: Row) -> bool | None:
    match node:
        case ("compare", name, sign, value):
            return _compared(row[name], sign, value)
        case ("in", name, values):
            return _either([_compared(row[name], "=", value) for value in values])
        case ("between", name, low, high):
            return _answer(("and", ("compare", name, ">=", low), ("compare", name, "<=", high)), row)
        case ("null", name):
            return row[name] is None
        case ("like", name, pattern):
            return None if row[name] is None else _like(row[name], pattern)
        case ("not", inner):
            answer = _answer(inner, row)
            return None if answer is None else not answer
        case ("or", left, right):
            return _either([_answer(left, row), _answer(right, row)])
    return _answer(("not", ("or", ("not", node[1]), ("not", node[2]))), row)


@settings(max_examples=80)
@given(
    rows=_rows(),
    trees=st.lists(_trees(), min_size=1, max_size=6),
    partition_by=st.sampled_from(_PARTITIONS),
    leading=st.sampled_from(list(_TYPES)),
)
def test_a_scan_finds_what_python_finds(rows: list[Row], trees: list[Node], partition_by: list[str], leading: str) -> None:
    store = open_store(StoreConfig(uri=f"memory://table-random-{next(_numbers)}"))
    rows = [row | {"id": number} for number, row in enumerate(rows)]
    state = build_table(
        store, _SCHEMA, [f"k_{leading}", "id"], rows[::2], partition_by=partition_by, properties={"granule_rows": 3, "chunkset_rows": 6}
    )
    state = append_rows(store, state, rows[1::2])

    everything, _ = scan_table(store, state, columns=["id"])
    assert sorted(everything["id"].to_pylist()) == list(range(len(rows)))
    for tree in trees:
        wanted = [row["id"] for row in rows if _answer(tree, row)]
        found, receipt = scan_table(store, state, columns=["id"], where=_sql(tree))
        assert sorted(found["id"].to_pylist()) == wanted, _sql(tree)
        assert receipt.rows_returned == len(wanted)
        assert receipt.files_listed == receipt.files_read + receipt.files_pruned_by_partition + receipt.files_pruned_by_key


_FIXED = [
    "c_int8 > -10.5",
    "NOT c_int8 < 300",
    "NOT (c_int8 = 300)",
    "c_int8 NOT IN (1, 300)",
    "c_int8 NOT IN (1, NULL)",
    "NOT (c_int8 IN (1, NULL) OR c_int8 IS NULL)",
    "c_double IN (CAST('0' AS DOUBLE))",
    "c_double = CAST('-0.0' AS DOUBLE)",
    "c_double > CAST('1' AS DOUBLE)",
    "c_double NOT IN (CAST('NaN' AS DOUBLE), CAST('0.5' AS DOUBLE))",
    "c_double <= CAST('NaN' AS DOUBLE)",
    "c_double < CAST('NaN' AS DOUBLE)",
    "c_float >= CAST('0.1' AS DOUBLE)",
    "c_decimal > 0.005 AND c_decimal <= 1.005",
    "c_decimal BETWEEN 1 AND 0",
    "c_string LIKE 'a%' AND NOT c_string LIKE '_b%'",
    "c_string NOT LIKE '%'",
    "c_string > 'a'",
    "c_date < '1970-01-01'",
    "c_timestamp_ntz BETWEEN '2026-02-28 23:00:00' AND '2026-03-01'",
    "c_boolean OR c_int8 IS NULL",
    "NOT c_boolean",
]


@pytest.mark.parametrize("where", _FIXED)
def test_duckdb_agrees(where: str) -> None:
    """A second opinion on what SQL means, from somebody else's engine."""
    store = open_store(StoreConfig(uri=f"memory://table-random-{next(_numbers)}"))
    names = [name for name in _COLUMNS if name.startswith("c_")]
    rows: list[Row] = [{"id": 0} | dict.fromkeys(names)]
    for turn in range(12):
        rows.append({"id": turn + 1} | {name: _POOLS[_COLUMNS[name]][turn % len(_POOLS[_COLUMNS[name]])] for name in names})
    schema = ", ".join(f"{name} {_COLUMNS[name]}" for name in names) + ", id int32"
    state = build_table(store, schema, "id", rows, properties={"granule_rows": 2})
    found, _ = scan_table(store, state, columns=["id"], where=where)
    everything, _ = scan_table(store, state)
    with duckdb.connect() as connection:
        connection.register("everything", everything)
        wanted = connection.execute(f"SELECT id FROM everything WHERE {where} ORDER BY id").fetchall()
    assert [(number,) for number in found["id"].to_pylist()] == wanted
