"""Where a peer sits while it is asked: in a process of its own, so that its memory is its own and its end is only its own.

The process times itself; what travels through the pipe is not measured.
"""

from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Protocol

from benchmarks.answers import Answer, Ask, answer, answer_all
from benchmarks.peers import Place, peer_type
from benchmarks.workloads import Workload


class Seat(Protocol):
    """Answers one question after the other."""

    def ask(self, ask: Ask) -> Answer: ...

    def ask_all(self, asks: Sequence[Ask]) -> list[Answer]:
        """Several reads right after one another; fewer answers than asks end with a failure, or with the time of a turn."""
        ...

    def leave(self) -> None: ...


# From a peer's name, the workload and the place to a seat.
Seating = Callable[[str, Workload, Place], Seat]


class InlineSeat:
    """In this process: for tests, where memory and time say nothing. A peer that is not installed fails at every question."""

    def __init__(self, name: str, workload: Workload, place: Place) -> None:
        self._missing = ""
        try:
            self._peer = peer_type(name)(workload, place)
        except ImportError as error:
            self._missing = f"not installed: {error}"

    def ask(self, ask: Ask) -> Answer:
        return self.ask_all([ask])[0]

    def ask_all(self, asks: Sequence[Ask]) -> list[Answer]:
        if self._missing:
            return [Answer(status="failed", reason=self._missing)]
        return [answer(self._peer, asks[0])] if len(asks) == 1 else answer_all(self._peer, asks)

    def leave(self) -> None:
        if not self._missing:
            self._peer.close()


class ProcessSeat:
    """In a process that is started for it; one that dies, or takes longer than the limit, has failed with that reason."""

    def __init__(self, name: str, workload: Workload, place: Place, limit_seconds: float = 1800) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, name, workload, place))
        self._limit_seconds = limit_seconds
        self._over = ""
        self._process.start()
        theirs.close()

    @property
    def process_id(self) -> int:
        return self._process.pid or 0

    def ask(self, ask: Ask) -> Answer:
        return self.ask_all([ask])[0]

    def ask_all(self, asks: Sequence[Ask]) -> list[Answer]:
        if self._over:
            return [Answer(status="failed", reason=self._over)]
        verb = asks[0].verb
        try:
            self._pipe.send(asks)
            if self._pipe.poll(self._limit_seconds):
                found: list[Answer] = self._pipe.recv()
                return found
            self._over = f"stopped: no answer to {verb} within {self._limit_seconds:.0f} s"
        except (EOFError, OSError):
            self._process.join()
            self._over = f"its process ended with code {self._process.exitcode} during {verb}"
        self.leave()
        return [Answer(status="failed", reason=self._over)]

    def leave(self) -> None:
        """The end of the pipe is the sign to go; a process that hangs is made to."""
        self._pipe.close()
        self._process.join(0 if self._over else 20)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection, name: str, workload: Workload, place: Place) -> None:
    seat = InlineSeat(name, workload, place)
    while True:
        try:
            asks = pipe.recv()
        except EOFError:
            seat.leave()
            return
        pipe.send(seat.ask_all(asks))
