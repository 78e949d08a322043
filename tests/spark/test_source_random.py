"""Pushdown is never wrong: random conditions over random tables of several schemas, with hidden rows and every type.

Twice: Spark's own filters in this process, against Python; and texts through Spark, against Spark over a plain Parquet copy of the rows.
"""

# Times without a zone are a type of column here.
# ruff: noqa: DTZ001

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import datasource as sd
from pyspark.sql import functions as sf

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.spark.source.options import read_options
from needlefish.spark.source.reader import PushingReader, read_schema
from needlefish.store import open_store
from needlefish.table.evolve import Changes, evolve
from needlefish.table.read_task import signed
from needlefish.testing.tables import append_rows, build_table, skip_rows

_numbers = count()

_TIMES = [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1), datetime(2026, 2, 28, 23), datetime(2026, 3, 1, 0, 30, 0, 1)]
_POOLS: dict[str, list[Any]] = {
    "int8": [-128, -10, -1, 0, 1, 127],
    "int16": [-32768, -1, 0, 1, 32767],
    "int32": [-(2**31), -1, 0, 300, 2**31 - 1],
    "int64": [-(2**62), -1, 0, 1, 2**53 + 1, 2**62],
    "uint8": [0, 1, 255],
    "uint16": [0, 1, 65535],
    "uint32": [0, 1, 2**32 - 1],
    "uint64": [0, 1, 2**63, 2**64 - 1],
    "float": [math.nan, -math.inf, -1.5, -0.0, 0.0, 0.10000000149011612, math.inf],
    "double": [math.nan, -math.inf, -1.5, -0.0, 0.0, 0.1, 1e300, math.inf],
    "decimal(5,2)": [Decimal(text) for text in ("-999.99", "-0.01", "0.00", "0.01", "1.01", "999.99")],
    "decimal(38,6)": [Decimal(text) for text in ("-12345678901234567890.000001", "0.000000", "0.000001")],
    "boolean": [True, False],
    "string": ["", "a", "ab", "abc", "B", "a%", "a_c", "a\\c", "ä", "\U0001f41f", "a\nb", "zz", "it's"],
    "binary": [b"", b"\x00", b"\x00\xff", b"a", b"\xff\xff"],
    "date": [time.date() for time in _TIMES] + [date(1582, 1, 1)],
    "timestamp": [time.replace(tzinfo=UTC) for time in _TIMES],
    "timestamp_ntz": _TIMES,
}
_TYPES = {kind.partition("(")[0] + kind.partition(",")[2].rstrip(")"): kind for kind in _POOLS}
_PLAIN = {f"c_{name}": kind for name, kind in _TYPES.items()}
_NESTED = {"c_list": "list<int64>", "c_struct": "struct<x:int32,y:string>", "c_map": "map<string,int64>"}
_NESTED_VALUES: dict[str, Any] = {"c_list": [1, None], "c_struct": {"x": 1, "y": "a"}, "c_map": [("k", 1)]}
# What the first files have, and what becomes of it: wider, renamed, dropped and come again empty. `w_` ones keep their pool.
_FIRST = {"w_int": "int8", "w_uint": "uint16", "w_float": "float", "w_decimal": "decimal(5,2)", "old": "string", "gone": "int64"}
_CHANGES = [
    Changes(widen={"w_int": "int16", "w_float": "double"}, rename={"old": "renamed"}, drop=["gone"], add={"added": "string"}),
    Changes(widen={"w_int": "int64", "w_uint": "uint64", "w_decimal": "decimal(9,2)"}, add={"gone": "int64"}, reorder=["renamed", "id"]),
]
_LAST = {"w_int": "int8", "w_uint": "uint16", "w_float": "float", "w_decimal": "decimal(5,2)", "renamed": "string", "added": "string"}
_COLUMNS = _PLAIN | _LAST | {"gone": "int64", "id": "int32"}

Row = dict[str, Any]
Node = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table on disk, and the rows that are visible in it."""

    uri: str
    state: TableState
    rows: list[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a table is built from."""

    rows: list[Row]
    leading: str
    partition_by: list[str]
    indexed: list[str]
    filtered: list[str]
    hidden: set[int]


def shapes(least: int, most: int) -> st.SearchStrategy[Shape]:
    names = list(_PLAIN)
    cells = {name: st.sampled_from([None, *_POOLS[kind]]) for name, kind in (_PLAIN | _FIRST | _LAST).items()}
    cells |= {name: st.none() | st.just(value) for name, value in _NESTED_VALUES.items()}
    # Too few values for an index or a filter to tell rows apart by.
    telling = [name for name in names if name != "c_boolean"]
    discrete = [name for name in names if _PLAIN[name] not in ("float", "double")]
    return st.builds(
        Shape,
        rows=st.lists(st.fixed_dictionaries(cells), min_size=least, max_size=most),
        leading=st.sampled_from(names),
        partition_by=st.sampled_from(
            [[], ["bucket(id, 3)"], ["day(c_timestamp)"], ["prefix(c_string, 1)"], *([name] for name in discrete)]
        ),
        indexed=st.lists(st.sampled_from([*telling, "w_int", "w_uint", "w_float", "w_decimal"]), max_size=3, unique=True),
        filtered=st.lists(st.sampled_from([*telling, "w_int", "w_decimal"]), max_size=3, unique=True),
        hidden=st.sets(st.integers(0, most)),
    )


def built(uri: str, shape: Shape) -> Case:
    """Three commits under three schemas, and one that hides rows."""
    store = open_store(StoreConfig(uri=uri))
    first = _PLAIN | _NESTED | _FIRST
    schema = ", ".join(f"{name} {kind}" for name, kind in first.items()) + ", k " + _PLAIN[shape.leading] + ", id int32"
    rows = [row | {"id": number, "k": _key(row, shape)} for number, row in enumerate(shape.rows)]
    state = build_table(
        store,
        schema,
        ["k", "id"],
        [{name: row[name] for name in [*first, "k", "id"]} for row in rows[::3]],
        partition_by=shape.partition_by,
        indexes=[nf.PointIndex(name, kind=("postings", "cuckoo")[at % 2]) for at, name in enumerate(["id", *shape.indexed])],
        bloom_columns=shape.filtered,
        properties={"granule_rows": 3, "chunkset_rows": 6},
    )
    for start, changes in enumerate(_CHANGES, 1):
        state = evolve(store, state, changes)
        names = state.definition.schema.names
        state = append_rows(store, state, [{name: row.get(name) for name in names} for row in rows[start::3]])
    hidden = shape.hidden & set(range(len(rows)))
    state = skip_rows(store, state, lambda row: row["id"] in hidden) if hidden else state
    visible = [_today(row, state) for row in rows if row["id"] not in hidden]
    return Case(uri=uri, state=state, rows=visible)


def _key(row: Row, shape: Shape) -> Any:
    """Never null, and for zeros one bit pattern, since two rows may not have the same key."""
    value = row[f"{shape.leading}"]
    return _POOLS[_PLAIN[shape.leading]][0] if value is None else value


def _today(row: Row, state: TableState) -> Row:
    age = row["id"] % 3
    values = {name: row.get(name) for name in state.definition.schema.names}
    values["renamed"] = row["old"] if age == 0 else row["renamed"]
    values["added"] = None if age == 0 else row["added"]
    values["gone"] = row["gone"] if age == 2 else None
    return values


def leaves(columns: Sequence[str] = tuple(_COLUMNS)) -> st.SearchStrategy[Node]:
    def of(name: str) -> st.SearchStrategy[Node]:
        if name in _NESTED:
            return st.just(("null", name))
        kind = _COLUMNS[name]
        value = st.sampled_from(_POOLS[kind]) if name != "id" else st.integers(0, 20)
        sign = st.sampled_from(["=", "=", "<", "<=", ">", ">=", "<=>"])
        comparing = st.tuples(st.just("compare"), st.just(name), sign, value)
        found = [
            *([comparing] * 3),
            st.tuples(st.just("in"), st.just(name), st.lists(st.none() | value, min_size=1, max_size=4).map(tuple)),
            st.tuples(st.just("null"), st.just(name)),
        ]
        if kind == "string":
            texts = st.sampled_from(["a", "", "b", "ä", "c", "a%", "_", "\\", "\n", "%"])
            found.append(st.tuples(st.sampled_from(["starts", "ends", "contains"]), st.just(name), texts))
        return st.one_of(found)

    return st.sampled_from([*columns, *_NESTED]).flatmap(of)


def order(value: Any) -> tuple[int, Any]:
    """NaN after all numbers."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def compared(left: Any, sign: str, right: Any) -> bool | None:
    if sign == "<=>":
        return left is None if right is None else left is not None and order(left) == order(right)
    if left is None or right is None:
        return None
    one, other = order(left), order(right)
    return {"=": one == other, "<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[sign]


_TEXTS: dict[str, Callable[[str, str], bool]] = {"starts": str.startswith, "ends": str.endswith, "contains": str.__contains__}


def answer(node: Node, row: Row) -> bool | None:
    match node:
        case ("not", inner):
            found = answer(inner, row)
            return None if found is None else not found
        case ("compare", name, sign, value):
            return compared(row[name], sign, value)
        case ("in", name, values):
            each = [compared(row[name], "=", value) for value in values]
            return True if True in each else None if None in each else False
        case ("null", name):
            return row[name] is None
    return None if row[node[1]] is None else _TEXTS[node[0]](row[node[1]], node[2])


_FILTERS: dict[str, Any] = {
    "=": sd.EqualTo,
    "<=>": sd.EqualNullSafe,
    "<": sd.LessThan,
    "<=": sd.LessThanOrEqual,
    ">": sd.GreaterThan,
    ">=": sd.GreaterThanOrEqual,
    "starts": sd.StringStartsWith,
    "ends": sd.StringEndsWith,
    "contains": sd.StringContains,
}


def as_filter(node: Node) -> sd.Filter:
    """As Spark hands it over: unsigned numbers of 64 bits are decimals there."""
    match node:
        case ("not", ("null", name)):
            return sd.IsNotNull((name,))
        case ("not", inner):
            return sd.Not(as_filter(inner))
        case ("compare", name, sign, value):
            return _FILTERS[sign]((name,), _given(name, value))
        case ("in", name, values):
            return sd.In((name,), tuple(_given(name, value) for value in values))
        case ("null", name):
            return sd.IsNull((name,))
    return _FILTERS[node[0]]((node[1],), node[2])


def _given(name: str, value: Any) -> Any:
    return Decimal(value) if value is not None and (_COLUMNS[name] == "uint64" or name == "w_uint") else value


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    shape=shapes(12, 24),
    conditions=st.lists(st.lists(leaves() | leaves().map(lambda leaf: ("not", leaf)), min_size=1, max_size=2), min_size=16, max_size=24),
)
def test_filters_keep_what_python_keeps(shape: Shape, conditions: list[list[Node]]) -> None:
    case = built(f"memory://source-random-{next(_numbers)}", shape)
    options = read_options({"path": case.uri})
    by_id = {row["id"]: row for row in case.rows}
    for nodes in conditions:
        reader = PushingReader(options, case.state, read_schema(options, case.state))
        filters = [as_filter(node) for node in nodes]
        handed_back = list(reader.pushFilters(filters))
        left = [node for node, found in zip(nodes, filters, strict=True) if any(found is other for other in handed_back)]
        batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
        found = [number for batch in batches for number in batch["id"].to_pylist()]
        assert len(found) == len(set(found))
        kept = sorted(number for number in found if all(answer(node, by_id[number]) for node in left))
        assert kept == sorted(number for number, row in by_id.items() if all(answer(node, row) for node in nodes)), nodes


def trees() -> st.SearchStrategy[Node]:
    return st.recursive(
        leaves(), lambda node: st.tuples(st.just("not"), node) | st.tuples(st.sampled_from(["and", "or"]), node, node), max_leaves=4
    )


def literal(value: Any, kind: str) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value)
        case float():
            return f"CAST('{value}' AS {kind})"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP{'_NTZ' if value.tzinfo is None else ''} '{value.isoformat()}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"{value}BD"
    return f"CAST('{value}' AS {'DECIMAL(20,0)' if value >= 2**63 else 'BIGINT'})" if abs(value) > 2**31 else str(value)


def sql(node: Node) -> str:
    match node:
        case ("not", inner):
            return f"NOT ({sql(inner)})"
        case ("and" | "or" as word, left, right):
            return f"({sql(left)}) {word} ({sql(right)})"
        case ("compare", name, sign, value):
            return f"{name} {sign} {literal(value, _COLUMNS[name])}"
        case ("in", name, values):
            return f"{name} IN ({', '.join(literal(value, _COLUMNS[name]) for value in values)})"
        case ("null", name):
            return f"{name} IS NULL"
    text = node[2].replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    pattern = {"starts": f"{text}%", "ends": f"%{text}", "contains": f"%{text}%"}[node[0]]
    return f"{node[1]} LIKE {literal(pattern, 'string')}"


def parquet_copy(case: Case, path: Path) -> None:
    """The visible rows under the last schema, as anybody would write them."""
    plain = case.state.definition.schema.to_arrow()
    rows = pa.Table.from_pylist(case.rows, schema=plain.remove_metadata()) if case.rows else plain.empty_table()
    pq.write_table(rows.cast(signed(plain)), path)


def ids_by_number(frames: Iterable[DataFrame]) -> dict[int, list[int]]:
    """All in one query; a frame is read once, so that Spark keeps their filters apart."""
    tagged = [frame.select(sf.lit(number).alias("number"), "id") for number, frame in enumerate(frames)]
    found: dict[int, list[int]] = {number: [] for number in range(len(tagged))}
    for row in reduce(DataFrame.unionAll, tagged).collect():
        found[row.number].append(row.id)
    return {number: sorted(ids) for number, ids in found.items()}


@settings(
    max_examples=4,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(shape=shapes(6, 18), nodes=st.lists(trees(), min_size=6, max_size=8))
def test_spark_keeps_what_it_keeps_of_plain_parquet(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, shape: Shape, nodes: list[Node]
) -> None:
    """Shrinking is left out: an example takes seconds, and its seed is printed."""
    nf.register(spark)
    root = tmp_path_factory.mktemp("random")
    case = built(str(root / "table"), shape)
    parquet_copy(case, root / "copy.parquet")
    plain = spark.read.parquet(str(root / "copy.parquet"))
    answers = plain.select("id", *(sf.expr(sql(node)).alias(f"p{at}") for at, node in enumerate(nodes))).collect()
    expected = {at: sorted(row.id for row in answers if row[f"p{at}"]) for at in range(len(nodes))}
    frames = [spark.read.format("needlefish").option("pushdown", True).load(case.uri).where(sql(node)) for node in nodes]
    assert ids_by_number(frames) == expected, [sql(node) for node in nodes]
