"""Definitions: every argument that is wrong is refused by name, with its value and what to do."""

import pytest

from needlefish.errors import AlreadyExistsError, InvalidError
from needlefish.model.definition import PartitionColumn, Properties
from needlefish.model.schema import schema_from_text
from needlefish.store import RetriedStore
from needlefish.table.create import create_table, define_table

_SCHEMA = schema_from_text(
    "id string, n int32, big int64, x double, f float, d decimal(10,2), b boolean, raw binary, day date, ts timestamp, wall timestamp_ntz, tags list<string>"
)


def _define(key: object = "id", partition_by: object = (), **properties: object) -> object:
    return define_table(_SCHEMA, key, partition_by, properties)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ((), "key is empty; name"),
        ([], "key is empty; name"),
        ("", "key names column '', which the table does not have; its columns are id, n"),
        ("nobody", "key names column 'nobody', which the table does not have; its columns are id, n"),
        (["id", "ID"], "key names column 'ID'"),
        (["id", "n", "id"], "key names a column twice: id, n, id; name each once"),
        ("tags", "key names column 'tags' of type list<string>; nested columns cannot identify a row: choose others"),
        (None, "key is None; give a text or a list of texts, such as 'id'"),
        ([7], r"key is \[7\]; give a text"),
        (7, "key is 7; give a text"),
    ],
)
def test_a_wrong_key_is_refused(key: object, complaint: str) -> None:
    with pytest.raises(InvalidError, match=complaint):
        _define(key=key)


@pytest.mark.parametrize(
    ("partition_by", "complaint"),
    [
        ("nobody", "partition_by names column 'nobody', which the table does not have"),
        ("day(nobody)", "partition_by names column 'nobody'"),
        ("day(ts", r"partition_by 'day\(ts': expected '\)', but the text ends at position 6"),
        ("day(ts) extra", "expected the end, but found 'extra'"),
        ("day(ts, 3)", r"expected '\)', but found ', 3\)'"),
        ("week(ts)", "there is no function 'week'; the forms are column, constant"),
        ("day(n)", "partition_by applies day to column 'n' of type int32, but it takes dates or timestamps: choose another"),
        ("hour(day)", "applies hour to column 'day' of type date, but it takes timestamps"),
        ("time_slice(day, '7d')", "applies time_slice to column 'day'"),
        ("x", "applies identity to column 'x' of type double, but it takes any type but float"),
        ("f", "applies identity to column 'f'"),
        ("tags", "applies identity to column 'tags'"),
        ("get_or_else(x, 1)", "applies get_or_else to column 'x'"),
        ("round(d, 1)", "applies round to column 'd'"),
        ("round(id, 1)", "applies round to column 'id'"),
        ("round(n, 0)", "the step '0' is not a number above zero"),
        ("round(n, -5)", "the step '-5' is not a number above zero"),
        ("round(n, 2.5)", "rounds integer column 'n' to 2.5; give a whole step"),
        ("round(n, 99999999999999999999)", "the step '99999999999999999999' is not a number above zero and below"),
        ("round(n)", "expected ','"),
        ("time_slice(ts, 7)", "the slice '7' is not a count and a unit; write '30s'"),
        ("time_slice(ts, '0h')", "the slice '0h' is not a count"),
        ("time_slice(ts, '999999999999999w')", "longer than a century"),
        ("prefix(n, 2)", "applies prefix to column 'n'"),
        ("prefix(id, 0)", "0 is out of range; give a number from 1 to 1,000,000"),
        ("prefix(id, 1.5)", "expected a whole number"),
        ("bucket(id, -1)", "-1 is out of range"),
        ("bucket(id, 99999999999999999999)", "is out of range"),
        ("bucket(x, 4)", "applies bucket to column 'x'"),
        ("bucket(b, 4)", "applies bucket to column 'b'"),
        ("constant(id)", "expected a quoted text or a number"),
        ("get_or_else(n, 'many')", r"partition_by get_or_else\(n, …\) is 'many', which is no value of type int32"),
        ("get_or_else(n, 99999999999)", r"get_or_else\(n, …\) is '99999999999'"),
        (["id", "id"], "partition_by has 'id' twice; drop one, or name it with `as`"),
        (["constant('a')", "constant('b')"], "partition_by has 'constant' twice"),
        (["day(ts)", "day(ts)"], "partition_by has 'day_ts' twice"),
        (["prefix(id, 1)", "prefix(id, 2)"], "partition_by has 'prefix_id' twice"),
        (["day(ts)", "day(wall)", "id as day_ts"], "partition_by has 'day_ts' twice"),
        (None, "partition_by is None; give a text or a list of texts"),
        ([7], r"partition_by is \[7\]"),
        ("", "expected a column or a function, but the text ends"),
    ],
)
def test_a_wrong_partition_column_is_refused(partition_by: object, complaint: str) -> None:
    with pytest.raises(InvalidError, match=complaint):
        _define(partition_by=partition_by)


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"granules": 5}, "properties has 'granules', which no table has; the names are granule_rows,"),
        ({"granule_rows": 0}, r"properties\['granule_rows'\] is 0; give a value above zero of the kind of the default 4096"),
        ({"granule_rows": "8192"}, r"properties\['granule_rows'\] is '8192'"),
        ({"chunkset_rows": True}, r"properties\['chunkset_rows'\] is True"),
        ({"granule_bloom_probability": 1}, r"properties\['granule_bloom_probability'\] is 1"),
        ({"granule_bloom_probability": 1.0}, r"properties\['granule_bloom_probability'\] is 1.0; give a rate below 1"),
        ({"granule_bloom_probability": float("nan")}, r"properties\['granule_bloom_probability'\] is nan"),
        ({"compression": "zip"}, r"properties\['compression'\] is 'zip'; choose one of zstd,"),
        ({"compression": 3}, r"properties\['compression'\] is 3"),
    ],
)
def test_a_wrong_property_is_refused(properties: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidError, match=complaint):
        _define(**properties)


@pytest.mark.parametrize(
    ("properties", "granule_rows"),
    [
        ({}, 4_096),
        ({"chunkset_rows": 65_536}, 4_096),
        ({"chunkset_rows": 20_000}, 1_250),
        ({"chunkset_rows": 5_000}, 1_024),
        # One granule is one granule, whatever it could have held.
        ({"chunkset_rows": 100}, 4_096),
        ({"chunkset_rows": 20_000, "granule_rows": 8_192}, 8_192),
    ],
)
def test_small_chunksets_have_finer_granules(properties: dict[str, object], granule_rows: int) -> None:
    assert _define(**properties).properties.granule_rows == granule_rows


def test_properties_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(InvalidError, match=r"properties is 5; give a mapping"):
        define_table(_SCHEMA, "id", (), 5)  # type: ignore[arg-type]


def test_key_columns_become_required_and_others_stay_as_they_were() -> None:
    definition = define_table(_SCHEMA, ["n", "id"], (), {"granule_rows": 10})
    assert definition.key == (2, 1)
    assert [field.name for field in definition.key_fields] == ["n", "id"]
    assert {field.name for field in definition.schema.fields if not field.nullable} == {"n", "id"}
    assert definition.properties == Properties(granule_rows=10)


def test_every_form_of_a_partition_column_is_read() -> None:
    texts = [
        "id",
        "constant('it''s')",
        "get_or_else(n, -5) as n5",
        "round(n, 10)",
        "time_slice(ts, '2w')",
        "YEAR(ts)",
        "month( day )",
        "day(wall)",
        "hour(ts)",
        "prefix(id, 3) as `the prefix`",
        "bucket(raw, 16)",
    ]
    assert define_table(_SCHEMA, "id", texts, {}).partition_by == (
        PartitionColumn(name="id", transform="identity", source=1),
        PartitionColumn(name="constant", transform="constant", argument="it's"),
        PartitionColumn(name="n5", transform="get_or_else", source=2, argument="-5"),
        PartitionColumn(name="round", transform="round", source=2, argument="10"),
        PartitionColumn(name="time_slice", transform="time_slice", source=10, argument=2 * 7 * 86_400 * 1_000_000),
        PartitionColumn(name="year", transform="year", source=10),
        PartitionColumn(name="month", transform="month", source=9),
        PartitionColumn(name="day", transform="day", source=11),
        PartitionColumn(name="hour", transform="hour", source=10),
        PartitionColumn(name="the prefix", transform="prefix", source=1, argument=3),
        PartitionColumn(name="bucket", transform="bucket", source=8, argument=16),
    )


def test_names_that_clash_take_their_columns_name() -> None:
    definition = define_table(_SCHEMA, "id", ["day(ts)", "day(wall)", "month(ts)"], {})
    assert [column.name for column in definition.partition_by] == ["day_ts", "day_wall", "month"]


def test_a_table_is_created_once(store: RetriedStore) -> None:
    definition = define_table(_SCHEMA, "id", "day(ts)", {})
    assert create_table(store, definition).version == 0
    with pytest.raises(AlreadyExistsError, match=rf"{store.uri} holds a table already \(version 0\); open it"):
        create_table(store, definition)
