"""Claims that are wrong although every checksum fits: what a faulty writer would leave behind, and `verify` must see."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.bloom_record import encode_bloom_filters
from needlefish.format.column_stats_record import encode_column_stats
from needlefish.format.files_record import encode_files
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetId
from needlefish.model.entries import BloomEntry, ChunksetEntries, ColumnStats
from needlefish.model.log import RunKind, RunRef, TableState, Totals
from needlefish.model.schema import schema_from_text
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.commit import totals_of
from needlefish.table.create import define_table
from needlefish.table.parquet_writer import ParquetBuffer
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import Verification, verify_table
from needlefish.testing.tables import build_table, sorted_batches
from needlefish.timeline import Log, Proposal

SCHEMA = "id string, n int64, x double, host string"
ROWS = [{"id": f"k{number:02}", "n": number or None, "x": float("nan") if number == 3 else number / 2, "host": "a"} for number in range(20)]

Doctor = Callable[[ChunksetEntries], ChunksetEntries]


def committed(store: RetriedStore, doctor: Doctor = lambda entry: entry, **totals: int) -> tuple[TableState, ChunksetEntries]:
    """A table of one chunkset of which something else is recorded than is there."""
    state = build_table(store, SCHEMA, "id", partition_by=["host"], bloom_columns=["n"], properties={"granule_rows": 6})
    plan = WritePlan(definition=state.definition, prev_max=0)
    (entry,) = write_chunksets(sorted_batches(ROWS, state.definition), plan, store, SYSTEM)
    entry = doctor(entry)
    runs = [
        put_run(store, "files", encode_files([entry.info]), SYSTEM),
        put_run(store, "column_stats", encode_column_stats([entry]), SYSTEM),
        put_run(store, "bloom_filters", encode_bloom_filters([entry], 0), SYSTEM),
    ]
    return append(store, state, runs, replace(totals_of([entry.info]), **totals)), entry


def append(store: RetriedStore, state: TableState, runs: Iterable[RunRef], added: Totals) -> TableState:
    return Log(store, "test").append(state, lambda _: Proposal(action="append", runs_added=tuple(runs), added=added))


def verified(store: RetriedStore, state: TableState) -> Verification:
    return verify_table(Snapshot(store=store, state=state))


def of_info(**changes: Any) -> Doctor:
    return lambda entry: replace(entry, info=replace(entry.info, **changes))


def of_stats(field_id: int, **changes: Any) -> Doctor:
    def doctor(entry: ChunksetEntries) -> ChunksetEntries:
        return replace(entry, column_stats=tuple(replace(s, **changes) if s.field_id == field_id else s for s in entry.column_stats))

    return doctor


def of_filter(field_id: int | None, bitset: bytes | None) -> Doctor:
    def doctor(entry: ChunksetEntries) -> ChunksetEntries:
        kept = tuple(bloom for bloom in entry.bloom_filters if bloom.field_id != field_id)
        made = () if bitset is None else (BloomEntry(field_id=field_id, type="SPLIT_BLOCK", filter=bitset),)
        return replace(entry, bloom_filters=kept + made)

    return doctor


def without_stats(*field_ids: int) -> Doctor:
    def keep(stats: ColumnStats) -> bool:
        return stats.field_id not in field_ids

    return lambda entry: replace(entry, column_stats=tuple(filter(keep, entry.column_stats)))


def test_what_the_writer_records_is_right(store: RetriedStore) -> None:
    state, _ = committed(store)
    found = verified(store, state)
    assert (found.problems, found.notes) == ((), ())


EMPTY = SplitBlockFilter.empty(4).to_bytes()
HIGH, LOW = b"\xff" * 8, b"\x00" * 8


@pytest.mark.parametrize(
    ("doctor", "words", "remedy"),
    [
        (of_info(rows=21), "20 rows, but its info says 21", "files"),
        (of_info(granules=()), "granules are not those", "files"),
        (of_info(first_key=b"k01\x00\x00"), "key below its first key", "files"),
        (of_info(last_key=b"k18\x00\x00"), "key above its last key", "files"),
        (of_stats(2, min=HIGH), "'n' begin above the least value", "column_stats"),
        (of_stats(2, max=LOW), "'n' end below the greatest value", "column_stats"),
        (of_stats(2, null_count=0), "'n' count 20 values and 0 nulls of 20 and 1", "column_stats"),
        (of_stats(2, value_count=1), "'n' count 1 values and 1 nulls of 20 and 1", "column_stats"),
        (of_stats(3, has_nan=False), "'x' do not know of a NaN", "column_stats"),
        (of_stats(1, max=b"k1"), "'id' end below the greatest value", "column_stats"),
        (of_filter(None, EMPTY), "filter of the row key lacks a value", "bloom_filters"),
        (of_filter(2, EMPTY), "filter of column 'n' lacks a value", "bloom_filters"),
        (of_filter(2, b"odd"), "filter of column 'n' bitset of 3 bytes", "bloom_filters"),
        (of_info(schema_id=9), "written under schema 9, which the table does not have", ""),
        (of_info(bytes=7), "bytes, but it was committed with 7", ""),
        (of_info(footer_checksum="0" * 16), "the footer does not fit its checksum", ""),
    ],
)
def test_a_wrong_record_is_named_after_its_file(store: RetriedStore, doctor: Doctor, words: str, remedy: str) -> None:
    state, entry = committed(store, doctor)
    found = verified(store, state)
    (problem,) = found.problems
    assert problem.object == entry.info.path
    assert words in problem.what
    assert problem.remedy == f"rebuild {remedy!r}" if remedy else problem.remedy.startswith("restore the file")


@pytest.mark.parametrize(
    ("doctor", "words"),
    [
        (without_stats(2, 4), "not covered: no statistics of n, host"),
        (of_filter(None, None), "not covered: no filter of the row key"),
        (of_filter(2, None), "not covered: no filter of n"),
    ],
)
def test_what_is_missing_is_no_damage(store: RetriedStore, doctor: Doctor, words: str) -> None:
    state, entry = committed(store, doctor)
    found = verified(store, state)
    assert found.ok
    assert [(note.object, note.what) for note in found.notes] == [(entry.info.path, words)]


def test_a_file_under_another_id_is_missing(store: RetriedStore) -> None:
    state, _ = committed(store, of_info(id=ChunksetId("0" * 32)))
    assert [(p.object, p.what) for p in verified(store, state).problems] == [(f"data/host=a/{'0' * 32}.parquet", "the object is missing")]


def test_sums_that_do_not_add_up_are_named(store: RetriedStore) -> None:
    state, _ = committed(store, rows=19)
    (problem,) = verified(store, state).problems
    assert problem.object.endswith("00001.json")
    assert "the log counts 1 files, 19 rows" in problem.what


def rewritten(store: RetriedStore, rows: list[dict[str, Any]]) -> Verification:
    """The chunkset's file with other rows, and an info that fits its footer: a faulty writer rather than damage."""
    definition = define_table(schema_from_text(SCHEMA), "id", "host", {}, bloom_columns="n")
    table = pa.Table.from_pylist(rows, schema=definition.schema.to_arrow())
    buffer = ParquetBuffer(definition, table.slice(0, 6))
    for first in range(0, len(rows), 6):
        buffer.add(table.slice(first, 6))
    done = buffer.finish()
    changes = {"bytes": len(done.data), "footer_bytes": done.footer_bytes, "footer_checksum": done.footer_checksum}

    def doctor(entry: ChunksetEntries) -> ChunksetEntries:
        store.put(entry.info.path, done.data)
        return replace(entry, info=replace(entry.info, **changes, granules=done.granules, rows=len(rows)))

    state, _ = committed(store, doctor)
    return verified(store, state)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([*range(1, 20), 0], "granule 3: rows are not sorted by key"),
        ([1, 0, *range(2, 20)], "granule 0: rows are not sorted by key"),
        ([*range(6), 5, *range(7, 20)], "has the key {'id': 'k05'} more than once"),
    ],
)
def test_rows_out_of_order_or_twice_are_seen_across_granules(store: RetriedStore, order: list[int], words: str) -> None:
    found = rewritten(store, [ROWS[number] for number in order])
    assert words in [problem.what for problem in found.problems]


def test_rows_of_another_partition_are_seen(store: RetriedStore) -> None:
    found = rewritten(store, [*ROWS[:9], ROWS[9] | {"host": "b"}, *ROWS[10:]])
    assert "has rows of partition host=b, but lies in host=a" in [problem.what for problem in found.problems]


def test_the_same_rows_again_are_sound(store: RetriedStore) -> None:
    assert rewritten(store, ROWS).problems == ()


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (
            "files",
            lambda t: t.set_column(t.schema.names.index("partition"), t.schema.field("partition"), pa.array(["host=z"])),
            "is not that of its record",
        ),
        ("column_stats", lambda t: t.take(list(reversed(range(len(t))))), "is not above the one before it"),
        ("column_stats", lambda t: pa.concat_tables([t.slice(0, 1), t]), "is not above the one before it"),
        ("column_stats", lambda t: t.set_column(4, t.schema.field(4), pa.array([9] * len(t))), "is not that of its record"),
        ("bloom_filters", lambda t: t.set_column(3, t.schema.field(3), pa.array(["y"] * len(t))), "is not that of its record"),
    ],
)
def test_runs_whose_keys_are_wrong_are_named(store: RetriedStore, kind: RunKind, change: Any, words: str) -> None:
    state, entry = committed(store)
    encode = {
        "files": lambda: encode_files([entry.info]),
        "column_stats": lambda: encode_column_stats([entry]),
        "bloom_filters": lambda: encode_bloom_filters([entry], 0),
    }
    run = put_run(store, kind, change(encode[kind]()), SYSTEM)
    state = append(store, state, [run], Totals())
    found = [problem for problem in verified(store, state).problems if run.id in problem.object]
    assert [words in problem.what for problem in found] == [True]


def test_a_reference_that_does_not_fit_its_run_is_named(store: RetriedStore) -> None:
    state, entry = committed(store)
    run = put_run(store, "column_stats", encode_column_stats([entry]), SYSTEM)
    state = append(store, state, [replace(run, records=run.records + 1)], Totals())
    assert [problem.what for problem in verified(store, state).problems] == ["4 records, but the log says 5"]
