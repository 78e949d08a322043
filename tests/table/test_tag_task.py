"""Tagging without Spark: what the two tasks send each other, and where they find keys, against reading every file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from needlefish.errors import InvalidError
from needlefish.format.key_order import encode_key
from needlefish.format.run import run_path
from needlefish.model.log import TableState
from needlefish.model.schema import schema_from_text
from needlefish.store import RetriedStore
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag import LocateTask, ProbeTask, TagPlan, locate, probe, tag_fields
from needlefish.table.tag.keys import key_chunks
from needlefish.table.tag.locate import merged
from needlefish.table.tag.parcel import PARCEL_SCHEMA, Parcel, parcels_of
from needlefish.testing.tables import append_rows, build_table

SMALL = {"chunkset_rows": 40, "granule_rows": 8}
Row = Mapping[str, object]
NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Where keys were found, by key and what else decides, and the parcels that were sent for it."""

    places: dict[bytes, tuple[str, int, str]]
    parcels: list[Parcel]


def tag(store: RetriedStore, state: TableState, rows: Sequence[Row], batch_rows: int = 50) -> Tagged:
    fields = tag_fields(state.definition)
    schema = pa.schema([field.to_arrow().with_nullable(True) for field in fields])
    given = pa.Table.from_pylist(list(rows), schema=schema)
    plan = TagPlan(state=state, store=store.config, delivered=tuple(schema.types))
    sent = list(ProbeTask(plan=plan)(given.to_batches(max_chunksize=batch_rows)))
    by_file = pa.Table.from_batches(sent, schema=PARCEL_SCHEMA).sort_by("file")
    found = pa.Table.from_batches(LocateTask(plan=plan)(by_file.to_batches()), schema=plan.result_schema)
    keys = list(zip(*(found[name].to_pylist() for name in plan.names), strict=True))
    tags = zip(*(found[name].to_pylist() for name in ("chunkset", "row", "partition")), strict=True)
    places = {encoded(key, schema.types): place for key, place in zip(keys, tags, strict=True)}
    assert len(places) == found.num_rows, "a key of these tables lives in one place"
    return Tagged(places=places, parcels=list(parcels_of(sent)))


def encoded(values: Sequence[object], types: Sequence[pa.DataType]) -> bytes:
    return b"".join(b"\0" if value is None else b"\1" + encode_key([value], [kind]) for value, kind in zip(values, types, strict=True))


def everywhere(store: RetriedStore, state: TableState) -> dict[bytes, tuple[str, int, str]]:
    """The place of every row, by its deciding columns, from the files themselves."""
    fields = tag_fields(state.definition)
    found = {}
    for info in plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets():
        rows = open_chunkset(store, state.definition, info).read(range(len(info.granules)), fields)
        keys = zip(*(rows[field.name].to_pylist() for field in fields), strict=True)
        found |= {encoded(key, [field.arrow_type for field in fields]): (info.id, row, info.partition) for row, key in enumerate(keys)}
    return found


def check(store: RetriedStore, state: TableState, rows: Sequence[Row]) -> Tagged:
    """Tags `rows` and compares with the files."""
    fields = tag_fields(state.definition)
    wanted = {encoded([row.get(field.name) for field in fields], [field.arrow_type for field in fields]) for row in rows}
    tagged = tag(store, state, rows)
    assert tagged.places == {key: place for key, place in everywhere(store, state).items() if key in wanted}
    return tagged


def numbered(numbers: Iterable[int]) -> list[dict[str, object]]:
    return [{"id": f"{number * 7919 % 1000:04}"} for number in numbers]


def test_present_absent_and_mixed_keys(store: RetriedStore) -> None:
    state = build_table(store, "id string", "id", numbered(range(300)), properties=SMALL)
    state = append_rows(store, state, numbered(range(300, 600)))
    assert len(check(store, state, numbered(range(600))).places) == 600
    assert len(check(store, state, numbered(range(500, 1000))).places) == 100
    assert check(store, state, numbered(range(600, 1000))).places == {}
    assert check(store, state, []).parcels == []


def test_absent_keys_are_ruled_out_before_anything_is_sent(store: RetriedStore) -> None:
    state = build_table(store, "id string", "id", numbered(range(0, 1000, 2)), properties=SMALL)
    assert tag(store, state, numbered(range(1, 1000, 2))).parcels == []


def test_only_the_own_partition_counts(store: RetriedStore) -> None:
    rows: list[dict[str, object]] = [{"id": number % 50, "host": host} for number, host in zip(range(150), "aab" * 50, strict=True)]
    rows = [dict(key) for key in {tuple(row.items()) for row in rows}] + [{"id": 7, "host": None}]
    state = build_table(store, "id int64, host string", "id", rows, partition_by="host", properties=SMALL)
    asked: list[Row] = [{"id": number, "host": host} for number in range(60) for host in ("a", "b", "nowhere", None)]
    found = check(store, state, asked)
    assert {place[2] for place in found.places.values()} == {"host=a", "host=b", "host=__HIVE_DEFAULT_PARTITION__"}


def test_more_partitions_than_are_looked_up_by_name(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "MOST_PINNED", 3)
    rows = [{"id": number, "host": f"h{number % 9}"} for number in range(90)]
    state = build_table(store, "id int64, host string", "id", rows, partition_by="host", properties=SMALL)
    assert len(check(store, state, rows).places) == 90
    assert len(check(store, state, [row | {"host": "h1"} for row in rows]).places) == 10


def test_global_keys_are_found_in_any_partition(store: RetriedStore) -> None:
    rows = [{"id": number, "host": f"h{number % 3}"} for number in range(90)]
    properties = {**SMALL, "global_keys": True}
    state = build_table(store, "id int64, host string", "id", rows, partition_by="host", properties=properties)
    assert [field.name for field in tag_fields(state.definition)] == ["id"]
    found = check(store, state, [{"id": number} for number in range(80, 100)])
    assert len({place[2] for place in found.places.values()}) == 3


def test_several_source_values_of_one_key_and_partition(store: RetriedStore) -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    state = build_table(store, "id int64, ts timestamp", "id", [{"id": 1, "ts": start}], partition_by="day(ts)")
    asked = [{"id": 1, "ts": start.replace(hour=hour)} for hour in range(3)] + [{"id": 1, "ts": start.replace(day=2)}]
    places = tag(store, state, asked).places
    assert len(places) == 3
    assert {place[1:] for place in places.values()} == {(0, "day=2026-11-01")}


KINDS: dict[str, list[object]] = {
    "int8": [-128, 0, 127],
    "int64": [-(2**63), -1, 2**63 - 1],
    "uint8": [0, 255],
    "uint64": [0, 2**63, 2**64 - 1],
    "float": [-1.5, 0.25, float("inf"), -0.0, NAN],
    "double": [-1.5, 0.1, 1e300, 0.0, NAN],
    "decimal(38,10)": [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10"), Decimal("0.1")],
    "decimal(5,2)": [Decimal("-1.25"), Decimal("99.99")],
    "boolean": [True, False],
    "string": ["", "\0", "é𝄞", "z" * 400],
    "binary": [b"", b"\x00", b"\x00\xff", b"a"],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "timestamp": [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1969, 1, 1), datetime(2026, 1, 1)],  # noqa: DTZ001
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_keys_of_each_type(store: RetriedStore, kind: str) -> None:
    half = KINDS[kind][::2]
    state = build_table(store, f"k {kind}", "k", [{"k": value} for value in half], properties={"chunkset_rows": 2, "granule_rows": 1})
    assert len(check(store, state, [{"k": value} for value in KINDS[kind]]).places) == len(half)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"boolean"}))
def test_composite_keys_of_each_type(store: RetriedStore, kind: str) -> None:
    rows = [{"k": value, "n": number} for value in KINDS[kind] for number in range(20)]
    state = build_table(store, f"k {kind}, n int32", ["k", "n"], rows[::2], properties=SMALL)
    state = append_rows(store, state, rows[1::4])
    # Every part of an absent key is in the table, just not together.
    assert len(check(store, state, rows).places) == len(rows) * 3 // 4


@pytest.mark.parametrize(("stored", "asked"), [(-0.0, 0.0), (0.0, -0.0), (-NAN, NAN), (NAN, -NAN)])
def test_equal_floats_of_other_bits_are_found(store: RetriedStore, stored: float, asked: float) -> None:
    state = build_table(store, "k double", "k", [{"k": stored}, {"k": 1.0}])
    assert {place[1] for place in tag(store, state, [{"k": asked}]).places.values()} == {0 if stored == 0 else 1}


def test_keys_in_files_of_a_narrower_type(store: RetriedStore) -> None:
    state = build_table(store, "k int32, f float", ["k", "f"], [{"k": number, "f": number / 4} for number in range(100)], properties=SMALL)
    wide = replace(schema_from_text("k int64 not null, f double not null"), id=2)
    state = replace(state, definition=replace(state.definition, schemas=(*state.definition.schemas, wide)))
    asked: list[Row] = [{"k": number, "f": number / 4} for number in range(90, 110)]
    asked += [{"k": 2**32 + 5, "f": 1.25}, {"k": 5, "f": 1.25 + 2**-40}, {"k": 5, "f": 1e300}]
    assert len(check(store, state, asked).places) == 10


def test_a_file_that_takes_many_keys_is_read_where_they_are(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    state = build_table(store, "id string", "id", numbered(range(200)), properties=SMALL)
    cool = check(store, state, numbered(range(400)))
    assert all(parcel.info for parcel in cool.parcels)
    monkeypatch.setattr(probe, "HOT_KEYS", 1)
    monkeypatch.setattr(probe, "_PARCEL_ROWS", 15)
    hot = check(store, state, numbered(range(400)))
    assert not any(parcel.info for parcel in hot.parcels)
    assert {parcel.rows.num_rows for parcel in hot.parcels} == {15, 10}
    assert len({parcel.file for parcel in hot.parcels}) == len(hot.parcels), "parcels of a hot file go to several tasks"


def drop_filters(store: RetriedStore, state: TableState) -> None:
    for run in state.runs_of("bloom_filters"):
        store.delete([run_path("bloom_filters", run.id)])


def test_without_filters_answers_stay_right_and_keys_do_not_multiply(store: RetriedStore) -> None:
    state = build_table(store, "id string", "id")
    for first in range(12):
        # Ranges rule nothing out: every file spans all keys.
        state = append_rows(store, state, numbered(range(first, 480, 12)))
    drop_filters(store, state)
    found = check(store, state, numbered(range(600)))
    assert len(found.places) == 480
    sent = sum(parcel.rows.num_rows for parcel in found.parcels if parcel.info)
    assert 0 < sent <= probe.MOST_SENT * 600


def test_chunks_are_bounded_and_meet_again_at_the_file(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from needlefish.table.tag import keys

    state = build_table(store, "id string", "id", numbered(range(40)), properties=SMALL)
    monkeypatch.setattr(keys, "MOST_ROWS", 10)
    batches = pa.Table.from_pylist(numbered(range(80))).to_batches(max_chunksize=5)
    assert {chunk.rows.num_rows for chunk in key_chunks(batches, state.definition)} == {10}
    reads: list[int] = []
    match = locate.match_rows
    monkeypatch.setattr(locate, "match_rows", lambda *given: (reads.append(1), match(*given))[1])
    tagged = tag(store, state, numbered(range(80)), batch_rows=5)
    assert len(tagged.places) == 40
    assert len(tagged.parcels) > 1
    assert len(reads) == 1, "the file is read once for the keys of all chunks"


def test_neighbours_of_one_file_are_merged_up_to_a_limit(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    info: Any = object()
    rows = pa.table({"id": ["a"] * 4})
    given = [Parcel(file=file, info=known, rows=rows) for file, known in [("x", info)] * 3 + [("y", info), ("z", None), ("z", None)]]
    monkeypatch.setattr(locate, "MOST_ROWS", 8)
    assert [(parcel.file, parcel.rows.num_rows) for parcel in merged(given)] == [("x", 8), ("x", 4), ("y", 4), ("z", 4), ("z", 4)]


def test_a_null_key_and_a_value_that_does_not_fit_are_refused(store: RetriedStore) -> None:
    state = build_table(store, "id uint8, host string", "id", [{"id": 1, "host": "a"}], partition_by="host")
    with pytest.raises(InvalidError, match=r"null in key column 'id', in the row \{'host': 'a'\}"):
        tag(store, state, [{"id": 1, "host": "a"}, {"id": None, "host": "a"}])
    rows = pa.RecordBatch.from_pylist([{"id": 300, "host": "a"}])
    with pytest.raises(InvalidError, match=r"'id' does not fit uint8.*300"):
        list(key_chunks([rows], state.definition))
