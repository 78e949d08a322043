"""`verify`: a sound table has no problems, and every kind of damage is named after its object without ending the verification."""

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.format.log_entry import CHECKPOINT_PREFIX, LATEST_PATH, LOG_PREFIX, checkpoint_path, decode_state, encode_state, log_path
from needlefish.format.run import run_path
from needlefish.model.log import TableState, Totals
from needlefish.store import RetriedStore
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import Verification, verify_table
from needlefish.testing.damage import RUN_DAMAGES, flip, truncate
from needlefish.testing.tables import append_rows, build_table
from needlefish.timeline import read_newest

SCHEMA = "id string, ts timestamp, n int64, x double, f float, d decimal(12,2), b binary, flag boolean, day date, wide uint64, u int32, tags list<string>"
START = datetime(2026, 11, 1, tzinfo=UTC)
KINDS = ("files", "column_stats", "bloom_filters")


def row(number: int) -> dict[str, Any]:
    return {
        "id": f"k{number:04}" + "é" * (number % 40 * 3),
        "ts": START + timedelta(days=number % 3),
        "n": None if number % 5 == 0 else number - 50,
        "x": [1.5, float("nan"), None, -0.0, float("inf")][number % 5],
        "f": float("nan") if number % 3 == 0 else number / 7,
        "d": Decimal(number) / 4 if number % 4 == 0 else None,
        "b": bytes([255] * (number % 90)),
        "flag": number % 2 == 0,
        "day": date(2026, 1, 1) + timedelta(days=number),
        "wide": 2**64 - 1 - number,
        "u": number % 7,
        "tags": ["a"] * (number % 3),
    }


def built(store: RetriedStore, **more: Any) -> TableState:
    """Two commits of three partitions, several granules and chunksets each."""
    properties = {"granule_rows": 8, "chunkset_rows": 40, "checkpoint_interval": 2}
    options = {"partition_by": ["day(ts)"], "bloom_columns": ["u", "x", "b"]} | more
    state = build_table(store, SCHEMA, "id", map(row, range(150)), properties=properties, **options)
    return append_rows(store, state, map(row, range(150, 240)))


def verified(store: RetriedStore, state: TableState, *, data: bool = True) -> Verification:
    return verify_table(Snapshot(store=store, state=state), data=data)


def problems(store: RetriedStore, state: TableState) -> list[tuple[str, str]]:
    return [(problem.object, problem.what) for problem in verified(store, state).problems]


@pytest.mark.parametrize("data", [True, False])
def test_a_sound_table_has_no_problems(store: RetriedStore, data: bool) -> None:
    state = built(store)
    found = verified(store, state, data=data)
    assert (found.problems, found.notes, found.ok) == ((), (), True)
    assert (found.versions, found.files, found.rows, found.data_read) == (3, state.totals.files, 240, data)
    assert found.runs == len(state.runs) >= 6


def test_keys_of_several_columns_and_floats_are_sound(store: RetriedStore) -> None:
    rows = [{"x": value, "n": number} for value in (float("nan"), -0.0, 1.5, float("-inf")) for number in (-1, 0, 3)]
    state = build_table(store, "x double, n int8", ["x", "n"], rows, properties={"granule_rows": 2})
    assert problems(store, state) == []


def test_an_empty_table_is_sound(store: RetriedStore) -> None:
    state = build_table(store, "id string", "id")
    assert (verified(store, state).problems, verified(store, state).versions) == ((), 1)


def test_without_data_no_page_is_read(store: RetriedStore) -> None:
    state = built(store)
    path = next(found.path for found in store.list("data/"))
    flip(store, path, 60)
    assert [name for name, _ in problems(store, state)] == [path]
    apart = store.apart()
    assert verified(apart, state, data=False).ok
    assert apart.meter.snapshot().head.requests == state.totals.files + len(state.runs)
    with_data = store.apart()
    verified(with_data, state)
    # Footers alone: a file's pages take a request of their own.
    assert apart.meter.snapshot().requests <= with_data.meter.snapshot().requests - state.totals.files


@pytest.mark.parametrize("damage", RUN_DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_run_is_named(store: RetriedStore, kind: Any, damage: str) -> None:
    state = built(store)
    run = state.runs_of(kind)[0]
    RUN_DAMAGES[damage](store, run)
    found = verified(store, state)
    assert {problem.object for problem in found.problems} == {run_path(kind, run.id)}
    assert found.problems[0].remedy == f"rebuild {kind!r}"
    if kind != "files" and damage != "footer flipped":
        assert any(note.what.startswith("not covered") and note.object.startswith("data/") for note in found.notes)
        assert all(note.remedy == f"rebuild {kind!r}" for note in found.notes)


def test_other_files_are_still_checked_when_a_files_run_is_lost(store: RetriedStore) -> None:
    state = built(store)
    newest, oldest = state.runs_of("files")
    store.delete([run_path("files", newest.id)])
    assert verified(store, state).files == oldest.records
    store.delete([found.path for found in store.list("data/")])
    named = {name for name, _ in problems(store, state)}
    assert run_path("files", newest.id) in named
    assert len(named) == oldest.records + 1


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda store, path: store.delete([path]), "missing"),
        (lambda store, path: flip(store, path, 60), "checksum"),
        (lambda store, path: truncate(store, path, 30), "do not begin and end"),
        (lambda store, path: truncate(store, path, 0), "do not begin and end"),
    ],
)
def test_a_damaged_log_entry_is_named_and_checkpoints_behind_it_go_on(store: RetriedStore, harm: Any, words: str) -> None:
    state = built(store)
    harm(store, log_path(1))
    ((name, what),) = problems(store, state)
    assert name == log_path(1)
    assert words in what


def test_the_first_entry_may_go_once_a_checkpoint_stands_for_it(store: RetriedStore) -> None:
    state = built(store)
    store.delete([log_path(0)])
    assert problems(store, state) == []
    store.delete([checkpoint_path(0)])
    ((name, what),) = problems(store, state)
    assert (name, what) == (log_path(0), "the object is missing, and no checkpoint stands for it")


def test_damaged_checkpoints_are_named(store: RetriedStore) -> None:
    state = built(store)
    flip(store, checkpoint_path(2), 200)
    flip(store, LATEST_PATH, 200)
    assert {name for name, _ in problems(store, state)} == {checkpoint_path(2), LATEST_PATH}


def test_checkpoints_that_say_something_else_are_named(store: RetriedStore) -> None:
    state = built(store)
    wrong = decode_state(store.get(checkpoint_path(0)), "")
    store.put(checkpoint_path(0), encode_state(_with_rows(wrong, 7)))
    store.put(LATEST_PATH, encode_state(_with_rows(state, 7)))
    assert {name for name, _ in problems(store, state)} == {checkpoint_path(0), LATEST_PATH}


def _with_rows(state: TableState, rows: int) -> TableState:
    return replace(state, totals=Totals(rows=rows, files=1, bytes=1))


def test_a_handle_that_believed_a_wrong_hint_is_told(store: RetriedStore) -> None:
    state = _with_rows(built(store), 7)
    found = problems(store, state)
    assert {name for name, _ in found} == {log_path(2)}
    assert [what[:37] for _, what in found] == ["the log folds into another state than", "the log counts 1 files, 7 rows and 1 "]


def test_a_lagging_or_missing_hint_is_only_noted(store: RetriedStore) -> None:
    state = built(store)
    store.put(LATEST_PATH, store.get(checkpoint_path(0)))
    (note,) = verified(store, state).notes
    assert (note.object, "lags behind: version 0 of 2" in note.what) == (LATEST_PATH, True)
    store.delete([LATEST_PATH])
    assert [note.object for note in verified(store, state).notes] == [LATEST_PATH]
    assert problems(store, state) == []


def test_an_older_version_is_verified_while_newer_ones_exist(store: RetriedStore) -> None:
    state = built(store)
    append_rows(store, state, map(row, range(240, 260)))
    assert read_newest(store).version == 3
    found = verified(store, state)
    assert (found.problems, found.notes, found.version) == ((), (), 2)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda store, path: store.delete([path]), "missing"),
        (lambda store, path: truncate(store, path, 500), "500 bytes, but it was committed with"),
        (lambda store, path: truncate(store, path, 0), "0 bytes, but it was committed with"),
        (lambda store, path: flip(store, path, -30), "the footer does not fit its checksum"),
        (lambda store, path: flip(store, path, -1), "the footer does not fit its checksum"),
        (lambda store, path: flip(store, path, 70), "cannot be read as Parquet"),
    ],
)
def test_a_damaged_file_is_named_alone(store: RetriedStore, harm: Any, words: str) -> None:
    state = built(store)
    path = [found.path for found in store.list("data/")][2]
    harm(store, path)
    ((name, what),) = problems(store, state)
    assert name == path
    assert words in what


def test_a_flipped_bit_in_a_granules_filter_is_seen(store: RetriedStore) -> None:
    """Parquet has no checksum there, and a find would no longer find the row."""
    state = built(store)
    path = next(found.path for found in store.list("data/"))
    chunk = pq.ParquetFile(pa.BufferReader(store.get(path))).metadata.row_group(1).column(0)
    flip(store, path, chunk.bloom_filter_offset + chunk.bloom_filter_length - 3)
    ((name, what),) = problems(store, state)
    assert name == path
    assert "granule 1: the file's own filter of 'id' is not that of its values" in what


@pytest.mark.parametrize("seed", range(2))
def test_no_damage_ends_a_verification(store: RetriedStore, seed: int) -> None:
    """Bits anywhere: every object but a data file's page index is covered by something that notices."""
    state = built(store)
    chance = random.Random(seed)
    for found in list(store.list("")):
        before = store.get(found.path)
        at = chance.randrange(found.size)
        if found.path.startswith("data/"):
            at = min(at, found.size // 3)
        chance.choice([lambda p, a: flip(store, p, a, chance.randrange(8)), lambda p, a: truncate(store, p, a)])(found.path, at)
        named = {problem.object for problem in verified(store, state).problems}
        assert named <= {found.path}, (found.path, at)
        assert named or found.path.startswith("data/"), (found.path, at)
        store.put(found.path, before)
    assert problems(store, state) == []


def test_problems_beyond_a_thousand_are_counted_only(store: RetriedStore) -> None:
    state = build_table(
        store, "id int64", "id", ({"id": n} for n in range(1_100)), properties={"chunkset_rows": 1, "checkpoint_interval": 9}
    )
    store.delete([found.path for found in store.list("data/")])
    found = verified(store, state, data=False)
    assert (found.problem_count, len(found.problems)) == (1_100, 1_000)


def test_strange_objects_beside_the_log_do_not_matter(store: RetriedStore) -> None:
    state = built(store)
    for path in (LOG_PREFIX + "notes.txt", CHECKPOINT_PREFIX + "0.json", CHECKPOINT_PREFIX + "copy of latest.json"):
        store.put(path, b"?")
    assert problems(store, state) == []
