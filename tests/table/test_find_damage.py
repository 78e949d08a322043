"""Never wrong by omission: whatever an index run lacks or loses, its files stay candidates, and the receipt says so."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from needlefish.errors import CorruptError
from needlefish.format.run import run_path
from needlefish.model.log import RunRef, TableState
from needlefish.store import RetriedStore
from needlefish.table.evolve import Changes, evolve
from needlefish.testing.tables import append_rows, build_table, find_table

Harm = Callable[[RetriedStore, RunRef], None]


def build(store: RetriedStore) -> TableState:
    """Five files whose ranges overlap; `host` has filters and `n` has none."""
    state = build_table(store, "id string, host string, n int64", "id", bloom_columns=["host"])
    for commit in range(5):
        rows = [
            {"id": f"k{number * 5 + commit:03}", "host": f"h{number * 5 + commit:03}", "n": number * 5 + commit} for number in range(20)
        ]
        state = append_rows(store, state, rows)
    return state


def path_of(run: RunRef) -> str:
    return run_path(run.kind, run.id)


def gone(store: RetriedStore, run: RunRef) -> None:
    store.delete([path_of(run)])


def empty(store: RetriedStore, run: RunRef) -> None:
    store.put(path_of(run), b"")


def cut_in_a_block(store: RetriedStore, run: RunRef) -> None:
    store.put(path_of(run), store.get(path_of(run))[: run.header_bytes + 100])


def flipped_in_the_header(store: RetriedStore, run: RunRef) -> None:
    flip(store, path_of(run), 40)


def flipped_in_a_block(store: RetriedStore, run: RunRef) -> None:
    flip(store, path_of(run), run.header_bytes + 100)


def flip(store: RetriedStore, path: str, at: int) -> None:
    data = bytearray(store.get(path))
    data[at] ^= 1
    store.put(path, bytes(data))


def something_else(store: RetriedStore, run: RunRef) -> None:
    store.put(path_of(run), b"PAR1" * 500)


HARMS: list[Harm] = [gone, empty, cut_in_a_block, flipped_in_the_header, flipped_in_a_block, something_else]

LEVELS = {"column_stats": "ranges", "bloom_filters": "filters"}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize(
    ("kind", "values"), [("column_stats", {"n": 7}), ("bloom_filters", {"host": "h007"}), ("bloom_filters", {"id": "k007"})]
)
@pytest.mark.parametrize("everything", [False, True])
def test_a_damaged_run_rules_nothing_out(store: RetriedStore, harm: Harm, kind: str, values: dict[str, object], everything: bool) -> None:
    state = build(store)
    _, whole = find_table(store, state, **values)
    runs: tuple[RunRef, ...] = state.runs_of(kind)  # type: ignore[arg-type]
    victims = runs if everything else runs[2:3]
    for run in victims:
        harm(store, run)
    found, receipt = find_table(store, state, **values)
    assert found["n"].to_pylist() == [7]
    assert len(receipt.unreadable) == len(victims)
    for run, text in zip(sorted(victims, key=lambda run: run.id), sorted(receipt.unreadable), strict=True):
        assert text.startswith(run_path(run.kind, run.id))
    level = receipt.level(LEVELS[kind])  # type: ignore[arg-type]
    assert level.unknown == len(victims)
    assert level.files_out >= whole.level(LEVELS[kind]).files_out  # type: ignore[arg-type]
    assert receipt.level("data").files_in >= whole.level("data").files_in
    assert whole.unreadable == []


@pytest.mark.parametrize("harm", HARMS)
def test_without_the_list_of_files_nothing_can_be_said(store: RetriedStore, harm: Harm) -> None:
    """The one kind that is the truth: a find that could not read it all must not answer."""
    state = build(store)
    harm(store, state.runs_of("files")[2])
    with pytest.raises(CorruptError, match="metadata/files"):
        find_table(store, state, id="k007")


@pytest.mark.parametrize(
    ("kind", "values"), [("column_stats", {"n": 7}), ("bloom_filters", {"host": "h007"}), ("bloom_filters", {"id": "k007"})]
)
def test_files_that_no_run_speaks_of_are_candidates(store: RetriedStore, kind: str, values: dict[str, object]) -> None:
    """A partial index must never drop the files it does not mention."""
    state = build(store)
    kept = [run for run in state.runs if run.kind != kind]
    for speaking in (0, 2):
        partial = replace(state, runs=(*kept, *state.runs_of(kind)[:speaking]))  # type: ignore[arg-type]
        found, receipt = find_table(store, partial, **values)
        assert found["n"].to_pylist() == [7]
        level = receipt.level(LEVELS[kind])  # type: ignore[arg-type]
        assert (level.files_in, level.unknown) == (5, 5 - speaking), "all ranges overlap"
        assert receipt.unreadable == [], "nothing is damaged"


def test_a_column_added_later_has_no_statistics_in_old_files(store: RetriedStore) -> None:
    state = evolve(store, build(store), Changes(add={"extra": "string"}))
    state = append_rows(store, state, [{"id": "x", "host": "h", "n": -1, "extra": "e1"}])
    found, receipt = find_table(store, state, extra="e1")
    assert found["n"].to_pylist() == [-1]
    ranges = receipt.level("ranges")
    assert (ranges.files_in, ranges.files_out, ranges.unknown) == (6, 6, 5)
    assert receipt.granules_read == 1


def test_values_in_other_columns_do_not_help_an_unknown_one(store: RetriedStore) -> None:
    state = build(store)
    found, receipt = find_table(store, state, host="h007", n=7)
    assert found.num_rows == 1
    found, receipt = find_table(store, state, host="h007", n=8)
    assert found.num_rows == 0
    assert receipt.unreadable == []
