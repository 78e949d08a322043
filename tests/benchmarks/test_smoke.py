"""The benchmarks at their smallest: every peer, workload and question, for the rows alone. Every peer must find what we find."""

from dataclasses import replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from benchmarks.answers import Ask, totals
from benchmarks.outcomes import Outcome
from benchmarks.peers import OURS, PEERS, Place
from benchmarks.questions import QUESTIONS, Question
from benchmarks.runner import Comparison, compare
from benchmarks.seats import InlineSeat
from benchmarks.workloads import WORKLOADS, Sizes, Workload

import needlefish as nf

pytestmark = [
    # PyIceberg says so whenever a row that it rewrites a file for could have been in another one.
    pytest.mark.filterwarnings("ignore:Delete operation did not match any records:UserWarning"),
]

SIZES = Sizes(files=4, rows=300)
SMALL = tuple(replace(question, turns=1, warm_ups=0, burst=min(question.burst, 2)) for question in QUESTIONS)
CHANGES = ("upsert_0.01%", "upsert_1%", "upsert_10%", "delete_1%")
PLAIN = ("duckdb", "duckdb-cached", "datafusion", "polars", "spark")
AFTER_CHANGES = {question.name for question in QUESTIONS if question.stage == "changed"}
AFTER_COMPACTION = {question.name for question in QUESTIONS if question.stage == "maintained"}

# What each peer cannot do. A question that is not here and fails is a failure of the test, and so is one that is here and works.
LACKS: dict[str, set[str]] = {
    **{peer: {*CHANGES, "maintain", *AFTER_CHANGES, *AFTER_COMPACTION} for peer in PLAIN},
    "deltalake": set(),
    "pyiceberg": {"maintain", *AFTER_COMPACTION},
    "lance-btree": set(),
    "lance-bloom": set(),
    OURS: set(),
}
# Verbs of our own that are still being built: once Table has them, the test asks for them.
if not hasattr(nf.Table, "upsert"):
    LACKS[OURS] |= {name for name in CHANGES if name.startswith("upsert")}
if not hasattr(nf.Table, "delete"):
    LACKS[OURS] |= {name for name in CHANGES if name.startswith("delete")}
if not hasattr(nf.Table, "run"):
    LACKS[OURS] |= {"maintain", *AFTER_COMPACTION}
if LACKS[OURS] >= set(CHANGES):
    LACKS[OURS] |= AFTER_CHANGES


@pytest.fixture(scope="module", params=sorted(WORKLOADS))
def workload(request: pytest.FixtureRequest) -> Workload:
    return WORKLOADS[request.param](SIZES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def found(workload: Workload, folder: Path, spark: object) -> Comparison:
    return compare(workload, PEERS, SMALL, folder / workload.name, InlineSeat)


def test_everybody_is_there(found: Comparison) -> None:
    assert set(found.loads) == set(PEERS)
    assert {name: load.reason for name, load in found.loads.items() if load.status != "ok"} == {}
    assert all(set(peers) == set(PEERS) for peers in found.outcomes.values())


def test_only_what_a_peer_lacks_is_missing(found: Comparison) -> None:
    missing = {peer: {name: _of(found, name, peer) for name in found.outcomes if _of(found, name, peer).status != "ok"} for peer in PEERS}
    assert {peer: sorted(lines) for peer, lines in missing.items()} == {peer: sorted(_lacks(peer, found.workload)) for peer in PEERS}, (
        missing
    )
    assert all(what.status == "unsupported" and what.reason for lines in missing.values() for what in lines.values())


def test_everybody_has_the_same_rows(found: Comparison) -> None:
    wrong = [f"{peer}: {name}" for name, peers in found.outcomes.items() for peer, what in peers.items() if what.agrees is False]
    assert wrong == []
    compared = {peer for peer in PEERS if peer != OURS and _of(found, "find_one", peer).agrees}
    assert compared == set(PEERS) - {OURS}


def test_rows_after_changes_are_those_of_a_dict(found: Comparison, folder: Path) -> None:
    """The peers agree with one another; this says that they agree on the truth."""
    expected = len(_truth(found.workload, folder / found.workload.name))
    counts = {peer: _of(found, "scan_changed", peer).rows for peer in PEERS if "scan_changed" not in LACKS[peer]}
    assert counts == dict.fromkeys(counts, expected)
    assert {"deltalake", "pyiceberg", "lance-btree", "lance-bloom"} <= set(counts)


def test_we_find_the_rows_of_the_workload(found: Comparison, folder: Path) -> None:
    workload = found.workload
    rows = pa.concat_tables([workload.file(number) for number in range(SIZES.files)])
    seat = InlineSeat(OURS, workload, Place(shared="", own=str(folder / f"ours-{workload.name}")))
    seat.ask(Ask(verb="load"))
    seat.ask(Ask(verb="open"))
    key = workload.present_keys(1)[0]
    wanted = reduce(pc.and_, [pc.equal(rows[name], part) for name, part in zip(workload.key, key, strict=True)])
    assert seat.ask(Ask(verb="find", argument=[key])).rows == rows.filter(wanted)
    value = workload.sought_values(1)[0]
    by_column = seat.ask(Ask(verb="find_by", argument=[value])).rows
    assert by_column is not None
    assert by_column.num_rows == pc.sum(pc.equal(rows[workload.column], value)).as_py()
    assert seat.ask(Ask(verb="find", argument=workload.absent_keys(3))).count == 0
    assert seat.ask(Ask(verb="scan", argument=workload.scanned)).totals == totals(rows.select(workload.scanned).to_batches())


def test_a_failing_peer_is_reported(workload: Workload, tmp_path: Path) -> None:
    """A question that cannot be answered becomes a failure with its error, and the others go on."""
    broken = Question(name="broken", title="", stage="loaded", turns=1, asks=lambda *_: [Ask(verb="find_by", argument=None)] * 2)
    outcome = compare(workload, ("polars", "duckdb"), (broken, SMALL[0]), tmp_path, InlineSeat)
    assert outcome.outcomes["broken"]["polars"].status == "failed"
    assert outcome.outcomes["broken"]["polars"].reason.startswith("TypeError")
    assert outcome.outcomes["find_one"]["duckdb"].agrees


def _of(found: Comparison, question: str, peer: str) -> Outcome:
    return found.outcomes[question][peer]


def _lacks(peer: str, workload: Workload) -> set[str]:
    return LACKS[peer] | (set() if workload.hot_values(1) else {"find_hot"})


def _truth(workload: Workload, folder: Path) -> dict[tuple[object, ...], dict[str, object]]:
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    for number in range(SIZES.files):
        rows |= _by_key(workload, workload.file(number))
    for name in ("upsert-0.0001-0", "upsert-0.01-0", "upsert-0.1-0"):
        rows |= _by_key(workload, pq.read_table(folder / f"{name}.parquet"))
    for key in _by_key(workload, pq.read_table(folder / "delete-0.01-0.parquet")):
        rows.pop(key, None)
    return rows


def _by_key(workload: Workload, rows: pa.Table) -> dict[tuple[object, ...], dict[str, object]]:
    return {tuple(row[name] for name in workload.key): row for row in rows.to_pylist()}
