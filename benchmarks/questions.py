"""The questions, in the order in which they are asked: first of the rows as loaded, then while they change, then after."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow.parquet as pq

from benchmarks.answers import Ask
from benchmarks.workloads import Workload

T = TypeVar("T")

_MANY = 1_000
Stage = Literal["loaded", "changing", "changed", "maintained"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`asks` makes what is asked, the same for every peer; the first `warm_ups` turns are not counted.

    In each turn a peer is asked `burst` times: a handle in use is not one that slept in between.
    """

    name: str
    title: str
    stage: Stage
    turns: int
    asks: Callable[[Workload, int, Path], list[Ask]]
    warm_ups: int = 1
    burst: int = 1

    @property
    def rounds(self) -> int:
        """Of all turns, counted or not."""
        return (self.turns + self.warm_ups) * self.burst


def find_one(workload: Workload, rounds: int, _: Path) -> list[Ask]:
    return [Ask(verb="find", argument=[key]) for key in _repeated(workload.present_keys(min(rounds, workload.sizes.total)), rounds)]


def find_cold(workload: Workload, rounds: int, folder: Path) -> list[Ask]:
    return [Ask(verb="find", argument=ask.argument, cold=True) for ask in find_one(workload, rounds, folder)]


def find_absent(workload: Workload, rounds: int, _: Path) -> list[Ask]:
    return [Ask(verb="find", argument=[key]) for key in _repeated(workload.absent_keys(min(rounds, workload.sizes.total)), rounds)]


def find_many(workload: Workload, rounds: int, _: Path) -> list[Ask]:
    """A thousand keys in each round, others than in the last as long as the table has as many."""
    each = min(_MANY, max(1, workload.sizes.total // 2))
    keys = workload.present_keys(min(workload.sizes.total, each * rounds))
    return [Ask(verb="find", argument=(keys * 2)[(number * each) % len(keys) :][:each]) for number in range(rounds)]


def find_by(workload: Workload, rounds: int, _: Path) -> list[Ask]:
    return [Ask(verb="find_by", argument=[value]) for value in workload.sought_values(rounds)]


def find_hot(workload: Workload, rounds: int, _: Path) -> list[Ask]:
    return [Ask(verb="find_by", argument=[value]) for value in _repeated(workload.hot_values(rounds), rounds)]


def scan(workload: Workload, rounds: int, _: Path) -> list[Ask]:
    return [Ask(verb="scan", argument=workload.scanned)] * rounds


def maintain(workload: Workload, rounds: int, _: Path) -> list[Ask]:
    return [Ask(verb="maintain")] * rounds


def upsert(share: float) -> Callable[[Workload, int, Path], list[Ask]]:
    """Batches are files that everybody reads, so that no peer gets rows that another would have to move first."""

    def asks(workload: Workload, rounds: int, folder: Path) -> list[Ask]:
        paths = [folder / f"upsert-{share}-{number}.parquet" for number in range(rounds)]
        for number, path in enumerate(paths):
            # Salts of different shares must differ, or their new rows would be the same ones.
            pq.write_table(workload.batch(share, _salt(share) + number), path)
        return [Ask(verb="upsert", argument=str(path)) for path in paths]

    return asks


def delete(share: float) -> Callable[[Workload, int, Path], list[Ask]]:
    def asks(workload: Workload, rounds: int, folder: Path) -> list[Ask]:
        paths = [folder / f"delete-{share}-{number}.parquet" for number in range(rounds)]
        for number, path in enumerate(paths):
            pq.write_table(workload.doomed(share, number), path)
        return [Ask(verb="delete", argument=str(path)) for path in paths]

    return asks


SHARES = (0.0001, 0.01, 0.1)


def _salt(share: float) -> int:
    return 10 * SHARES.index(share)


def _repeated(found: list[T], count: int) -> list[T]:
    return [found[number % len(found)] for number in range(count)] if found else []


QUESTIONS = (
    # The first finds of a process take twice as long as later ones: Python has yet to specialise the code that they run.
    Question(name="find_one", title="find one row by key", stage="loaded", turns=5, asks=find_one, warm_ups=2, burst=20),
    Question(name="find_one_cold", title="open, then find one row", stage="loaded", turns=7, asks=find_cold, warm_ups=0),
    Question(name="find_absent", title="find a key that is not there", stage="loaded", turns=3, asks=find_absent, burst=20),
    Question(name="find_many", title="find 1,000 rows by key", stage="loaded", turns=7, asks=find_many),
    Question(name="find_by_column", title="find by a column besides the key", stage="loaded", turns=3, asks=find_by, burst=5),
    Question(name="find_hot", title="find by a value that very many rows have", stage="loaded", turns=5, asks=find_hot),
    Question(name="scan", title="scan two columns", stage="loaded", turns=5, asks=scan),
    Question(name="upsert_0.01%", title="upsert 0.01%, scattered", stage="changing", turns=3, asks=upsert(SHARES[0]), warm_ups=0),
    Question(name="upsert_1%", title="upsert 1%, scattered", stage="changing", turns=2, asks=upsert(SHARES[1]), warm_ups=0),
    Question(name="upsert_10%", title="upsert 10%, scattered", stage="changing", turns=1, asks=upsert(SHARES[2]), warm_ups=0),
    Question(name="delete_1%", title="delete 1%, scattered", stage="changing", turns=1, asks=delete(0.01), warm_ups=0),
    Question(name="find_one_changed", title="find one row after the upserts", stage="changed", turns=3, asks=find_one, burst=20),
    Question(name="scan_changed", title="scan two columns after the upserts", stage="changed", turns=5, asks=scan),
    Question(name="maintain", title="compaction", stage="changing", turns=1, asks=maintain, warm_ups=0),
    Question(name="find_one_maintained", title="find one row after compaction", stage="maintained", turns=3, asks=find_one, burst=20),
    Question(name="scan_maintained", title="scan two columns after compaction", stage="maintained", turns=5, asks=scan),
)


def chosen_questions(text: str) -> tuple[Question, ...]:
    """`all`, a stage (`loaded`), or names with commas; always in the order above."""
    wanted = {name.strip() for name in text.split(",")}
    known = {question.name for question in QUESTIONS} | {question.stage for question in QUESTIONS} | {"all"}
    if wanted - known:
        raise ValueError(f"--questions names {', '.join(sorted(wanted - known))}; known are {', '.join(sorted(known))}")
    return tuple(question for question in QUESTIONS if wanted & {"all", question.name, question.stage})
