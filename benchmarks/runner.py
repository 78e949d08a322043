"""Asks all peers the same questions in turns, a few asks each, so that the machine's noise hits them alike.

A peer that fails or has no such verb stays in the result with the reason.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.answers import WRITES, Answer, Ask
from benchmarks.outcomes import Outcome, outcome, same
from benchmarks.page_cache import PageCache
from benchmarks.peers import Place, setup_of
from benchmarks.peers.shared_files import write_shared
from benchmarks.questions import Question
from benchmarks.seats import Seat, Seating
from benchmarks.workloads import Workload

Say = Callable[[str], None]
# A peer that has been asked this long may skip the rest of a question's turns. If that was before any was counted, all are.
PATIENCE_SECONDS = 20.0


@dataclass(slots=True)
class Contender:
    """A peer at work. Only peers whose writes so far are the same can be compared."""

    name: str
    seat: Seat
    history: list[str] = field(default_factory=list)
    maintained: bool = False
    # Why nothing more is asked of it.
    broken: Answer | None = None

    def ask(self, ask: Ask) -> Answer:
        if ask.verb in WRITES:
            # What others wrote is on its way to the disk. Who makes sure of their own bytes would wait for those too.
            os.sync()
        (found,) = self.ask_all([ask])
        if found.status == "ok" and ask.verb in ("upsert", "delete"):
            self.history.append(str(ask.argument))
        if found.status == "ok" and ask.verb == "maintain":
            self.maintained = True
        return found

    def ask_all(self, asks: Sequence[Ask]) -> list[Answer]:
        return [self.broken] if self.broken else self.seat.ask_all(asks)

    def misses(self, question: Question) -> Answer | None:
        """Why this question has no meaning for this peer now."""
        if question.stage == "changed" and not self.history:
            return Answer(status="unsupported", reason="no upsert or delete went through before")
        if question.stage == "maintained" and not self.maintained:
            return Answer(status="unsupported", reason="no compaction went through before")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One run: by peer its loading, and by question and peer what came of it."""

    workload: Workload
    loads: Mapping[str, Outcome]
    outcomes: Mapping[str, Mapping[str, Outcome]]
    titles: Mapping[str, str]

    def encode(self) -> dict[str, object]:
        sizes = self.workload.sizes
        return {
            "workload": self.workload.name,
            "files": sizes.files,
            "rows_per_file": sizes.rows,
            "peers": {name: {"setup": setup_of(name), "load": asdict(load)} for name, load in self.loads.items()},
            "questions": [
                {"name": name, "title": self.titles[name], "peers": {peer: asdict(found) for peer, found in peers.items()}}
                for name, peers in self.outcomes.items()
            ],
        }


def compare(
    workload: Workload,
    peers: Sequence[str],
    questions: Sequence[Question],
    folder: Path,
    seating: Seating,
    say: Say = lambda _: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> Comparison:
    """Loads the workload into every peer under `folder`, then asks; `say` hears what is being done."""
    say("writing the shared files")
    write_shared(workload, _place(folder, "none"))
    with _seated(workload, peers, folder, seating) as contenders, PageCache(folder) as page_cache:
        loads = {contender.name: _load(contender, say) for contender in contenders}
        outcomes = {}
        for question in questions:
            say(f"{question.title}: reading all files")
            os.sync()
            page_cache.hold()
            outcomes[question.name] = put(question, workload, contenders, folder, say, patience_seconds)
    return Comparison(workload=workload, loads=loads, outcomes=outcomes, titles={question.name: question.title for question in questions})


@contextmanager
def _seated(workload: Workload, peers: Sequence[str], folder: Path, seating: Seating) -> Iterator[list[Contender]]:
    contenders: list[Contender] = []
    try:
        for name in peers:
            contenders.append(Contender(name=name, seat=seating(name, workload, _place(folder, name))))
        yield contenders
    finally:
        for contender in contenders:
            contender.seat.leave()


def _place(folder: Path, name: str) -> Place:
    return Place(shared=str(folder / "shared"), own=str(folder / name))


def _load(contender: Contender, say: Say) -> Outcome:
    """Loading and the first opening; whoever cannot do that is asked nothing more."""
    say(f"loading {contender.name}")
    loaded = contender.ask(Ask(verb="load"))
    opened = contender.ask(Ask(verb="open")) if loaded.status == "ok" else loaded
    if opened.status != "ok":
        contender.broken = Answer(status=opened.status, reason=f"not loaded: {opened.reason}")
        return outcome([opened], 0, None)
    return outcome([loaded], 0, None)


def put(
    question: Question, workload: Workload, contenders: Sequence[Contender], folder: Path, say: Say, patience_seconds: float
) -> dict[str, Outcome]:
    """One question to everybody, in turns of a few asks each."""
    asks = question.asks(workload, question.rounds, folder)
    if not asks:
        nothing = Outcome(status="unsupported", reason=f"{workload.name} has no such values")
        return {contender.name: nothing for contender in contenders}
    given: dict[str, list[Answer]] = {contender.name: [] for contender in contenders}
    warm_ups = dict.fromkeys(given, 0)
    agreed: dict[str, bool | None] = dict.fromkeys(given)
    for number, first in enumerate(range(0, len(asks), question.burst)):
        burst = asks[first : first + question.burst]
        say(f"{question.title}: {first} of {len(asks)}")
        turn = {one.name: _turn(question, burst, one, given[one.name], patience_seconds) for one in _from(contenders, number)}
        for place in range(len(burst)):
            _agree({name: found[place] for name, found in turn.items() if place < len(found)}, contenders, agreed)
        for name, found in turn.items():
            # Rows have been compared; a run of large answers need not keep them all.
            given[name] += [replace(answer, rows=None) for answer in found]
            if number < question.warm_ups:
                warm_ups[name] = len(given[name])
    return {name: outcome(answers, warm_ups[name], agreed[name]) for name, answers in given.items()}


def _turn(
    question: Question, burst: Sequence[Ask], contender: Contender, before: Sequence[Answer], patience_seconds: float
) -> list[Answer]:
    """Nothing after a failure, or when the patience with a slow reader is used up."""
    tired = sum(answer.seconds for answer in before) > patience_seconds and burst[0].verb not in WRITES
    if tired or any(answer.status != "ok" for answer in before):
        return []
    missing = contender.misses(question)
    if missing is not None:
        return [missing]
    return [contender.ask(burst[0])] if len(burst) == 1 else contender.ask_all(burst)


def _from(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Each round begins with another peer, so that nobody is always the one after the heaviest."""
    first = number % len(contenders)
    return [*contenders[first:], *contenders[:first]]


def _agree(turn: Mapping[str, Answer], contenders: Sequence[Contender], agreed: dict[str, bool | None]) -> None:
    """The first peer of each history is what the others with that history are held against."""
    references: dict[tuple[str, ...], Answer] = {}
    for contender in contenders:
        found = turn.get(contender.name)
        if found is None or found.status != "ok" or (found.rows is None and found.totals is None):
            continue
        reference = references.setdefault(tuple(contender.history), found)
        if reference is not found:
            agreed[contender.name] = agreed[contender.name] is not False and same(reference, found)
