"""Options and schemas of the data source, in this process: each that is wrong names itself, its value and the remedy."""

import io
import tomllib
from pathlib import Path

import pytest
from pyspark.sql import datasource as sd
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from pyspark.sql.worker import lookup_data_sources

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.model.schema import schema_from_text
from needlefish.spark.source.data_source import NeedlefishSource
from needlefish.spark.source.declared import with_note
from needlefish.spark.source.filters import pushed
from needlefish.spark.source.options import read_options, store_config
from needlefish.store import open_store
from needlefish.table.predicate import Compare
from needlefish.testing.s3 import S3Server
from needlefish.testing.tables import build_table


@pytest.fixture
def path(uri: str) -> str:
    rows = [{"id": f"k{n}", "n": n, "day": f"2026-11-0{1 + n % 3}"} for n in range(9)]
    build_table(open_store(StoreConfig(uri=uri)), "id string, n int32, day string", "id", rows, partition_by=["day"])
    return uri


def source(**options: str) -> NeedlefishSource:
    return NeedlefishSource(sd.CaseInsensitiveDict(options))


def rows_of(found: NeedlefishSource, schema: StructType | None = None) -> list[dict[str, object]]:
    reader = found.reader(schema or found.schema())
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"path is ''; name the table"),
        ({"path": "x", "vrsion": "3"}, r"option 'vrsion' is '3', which nobody reads; known are path, version"),
        ({"path": "x", "version": "newest"}, r"version is 'newest'; give a whole number"),
        ({"path": "x", "version": "1", "timestamp": "2"}, r"version is '1' and timestamp is '2'; give one"),
        ({"path": "x", "timestamp": "noon"}, r"timestamp is 'noon'; give an ISO time"),
        ({"path": "x", "columns": "a,,b"}, r"columns is 'a,,b'; give names"),
        ({"path": "x", "columns": "a, a"}, r"names a column twice"),
        ({"path": "x", "columns": "[1]"}, r"columns is '\[1\]'; give names"),
        ({"path": "x", "columns": "[a"}, r"which is no JSON"),
        ({"path": "x", "partitions": "day=1"}, r"partitions is 'day=1', which is no JSON .*; give a JSON object"),
        ({"path": "x", "partitions": "[]"}, r"partitions is '\[\]'; give a JSON object"),
        ({"path": "x", "partitions": '{"a": NaN}'}, r"NaN is no JSON"),
        ({"path": "x", "pushdown": "maybe"}, r"pushdown is 'maybe'; give true or false"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(nf.InvalidError, match=message):
        read_options(options)


def test_options_are_read(uri: str) -> None:
    found = read_options(
        {"path": uri, "timestamp": "1970-01-01T00:00:01", "columns": '["a,b", "c"]', "partitions": '{"x": [1, null, 0.5]}'}
    )
    assert (found.timestamp_ms, found.columns) == (1000, ("a,b", "c"))
    assert str(found.partitions) == "{'x': [1, None, Decimal('0.5')]}"
    assert read_options({"path": uri, "timestamp": "1234"}).timestamp_ms == 1234
    assert not found.pushdown, "Spark 4.3 mixes up the filters of a frame's queries"
    stored = store_config({"path": "s3://b/t", "storage.aws_endpoint": "http://x", "Storage.aws_region": "eu"})
    assert stored.options == {"aws_endpoint": "http://x", "aws_region": "eu"}
    assert store_config({"path": "file:/data/t"}).uri == "file:///data/t"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "id, nn"}, r"columns names column 'nn', which the table does not have"),
        ({"where": "nn = 1"}, r"where names column 'nn', which the table does not have"),
        ({"where": "n +"}, r"where 'n \+' cannot be read"),
        ({"version": "99"}, r"99"),
    ],
)
def test_what_the_table_does_not_have_is_refused_when_it_is_loaded(path: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(nf.NeedlefishError, match=message):
        source(path=path, **options).schema()


def test_a_partition_that_the_table_does_not_have_is_refused_when_it_is_planned(path: str) -> None:
    with pytest.raises(nf.InvalidError, match="partitions names 'hour'; the table is partitioned by day"):
        rows_of(source(path=path, partitions='{"hour": 3}'))


def test_columns_and_partitions(path: str) -> None:
    found = source(path=path, columns="n, id", partitions='{"day": ["2026-11-01", "2026-11-03"]}', where="n > 2")
    assert found.schema().names == ["n", "id"]
    assert sorted(row["n"] for row in rows_of(found)) == [3, 5, 6, 8]
    assert set(rows_of(found)[0]) == {"n", "id"}
    looked_up = source(path=path, partitions='{"day": "2026-11-02"}', where="id in ('k1', 'k2', 'k3')")
    assert [row["id"] for row in rows_of(looked_up)] == ["k1"]


def test_a_given_schema_may_leave_out_columns_and_spell_them_otherwise(path: str) -> None:
    rows = rows_of(source(path=path), StructType([StructField("N", IntegerType())]))
    assert sorted(row["N"] for row in rows) == list(range(9))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (StructField("x", StringType()), "schema has column 'x', which the table does not have"),
        (StructField("n", LongType()), "schema has column 'n' as bigint, but the table has int"),
    ],
)
def test_a_given_schema_must_fit(path: str, column: StructField, message: str) -> None:
    with pytest.raises(nf.InvalidError, match=message):
        source(path=path).reader(StructType([column]))


def test_a_declared_table_carries_its_options_in_its_schema_but_never_the_store_s(path: str) -> None:
    declared = source(path=path, columns="id", provider="needlefish", owner="me").schema()
    schema = StructType.fromJson(declared.jsonValue())
    assert len(rows_of(source(), schema)) == 9
    assert rows_of(source(where="id = 'k4'"), schema) == [{"id": "k4"}]
    assert source(path=path).schema()["id"].metadata == {}, "a frame's schema is plain"
    secret = with_note(declared, {"path": "s3://b/t", "storage.aws_secret_access_key": "hush"})
    assert "s3://b/t" in secret.json()
    assert "hush" not in secret.json()


def test_a_declaration_refuses_unknown_options_but_not_properties(path: str) -> None:
    assert read_options({"path": path, "provider": "x", "comment": "words", "anything": "else"}).store.uri == path
    with pytest.raises(nf.InvalidError, match="option 'vrsion' is '3'"):
        read_options({"path": path, "provider": "x", "option.vrsion": "3", "vrsion": "3"})


def test_spark_finds_the_source_by_the_name_of_its_module() -> None:
    answer = io.BytesIO()
    lookup_data_sources._main(io.BytesIO(), answer)
    assert b"needlefish" in answer.getvalue()
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert "src/pyspark_needlefish" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


FIELDS = {field.name: field for field in schema_from_text("s string, n int32, l list<int64>").fields}


@pytest.mark.parametrize(
    "found",
    [
        sd.EqualTo(("a", "b"), 1),
        sd.EqualTo(("l",), [1]),
        sd.IsNull(("l",)),
        sd.EqualTo(("n",), "text"),
        sd.StringContains(("s",), "50%"),
        sd.StringEndsWith(("s",), "a_b"),
        sd.StringStartsWith(("n",), "1"),
        sd.Not(sd.StringStartsWith(("s",), "a%")),
        sd.Not(sd.EqualTo(("a", "b"), 1)),
    ],
)
def test_what_might_mean_something_else_is_left_to_spark(found: sd.Filter) -> None:
    assert pushed(found, FIELDS) is None


def test_a_prefix_that_is_no_pattern_still_rules_out() -> None:
    found = pushed(sd.StringStartsWith(("s",), "50%"), FIELDS)
    assert found is not None
    assert (found.exact, found.predicate) == (False, Compare(field=FIELDS["s"], operator=">=", value="50%"))


def test_the_store_s_own_options_are_handed_through(s3: S3Server) -> None:
    uri = f"s3://{s3.bucket}/source-options"
    build_table(open_store(StoreConfig(uri=uri, options=s3.options)), "id string, n int32", "id", [{"id": "a", "n": 1}], indexes=None)
    storage = {f"storage.{name}": value for name, value in s3.options.items()}
    assert rows_of(source(path=uri, where="id = 'a'", **storage)) == [{"id": "a", "n": 1}]
