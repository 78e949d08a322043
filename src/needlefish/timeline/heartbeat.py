"""Heartbeats: small objects that say "this attempt is alive". A hint for others; who may commit, only the log says.

Age is counted in the store's own time, so that the clocks of workers may be wrong by hours.
"""

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from needlefish.errors import FencedError, NeedlefishError, NotFoundError
from needlefish.format.envelope import seal, unseal
from needlefish.format.log_entry import ROOT
from needlefish.model.definition import Properties
from needlefish.model.instant import AttemptId
from needlefish.model.log import FORMAT
from needlefish.runtime import Runtime
from needlefish.store import Store

HEARTBEAT_PREFIX = f"{ROOT}heartbeats/"
# Objects of this name only ask the store what time it is.
_CLOCK_PREFIX = f"{HEARTBEAT_PREFIX}clock-"
# A thread that dies more often than this has a reason that starting it again does not cure.
_MOST_RESTARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What a heartbeat holds: how far its attempt is, for people."""

    format: int = FORMAT
    owner: str = ""
    stage: str = ""
    done: int = 0
    total: int = 0


def heartbeat_path(attempt: str) -> str:
    return HEARTBEAT_PREFIX + attempt


def this_process() -> str:
    """Words for people: whose process this is."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Heartbeat:
    """Of one attempt, from before its claim until its work is over."""

    def __init__(self, store: Store, attempt: AttemptId, interval_seconds: float, runtime: Runtime) -> None:
        self._store = store
        self._path = heartbeat_path(attempt)
        self._pulse = Pulse(owner=this_process())
        self._ticker = runtime.ticker(interval_seconds, self.beat)
        self._restarts = 0

    def start(self) -> None:
        """The first beat is put before anybody can see the claim, so that no claim looks dead at birth: without it none begins."""
        self._put()
        self._ticker.start()

    def beat(self) -> None:
        """A store that does not answer costs one beat; the ticker tries again in time."""
        with suppress(NeedlefishError):
            self._put()

    def _put(self) -> None:
        self._store.put(self._path, seal(self._pulse))

    def say(self, stage: str, done: int = 0, total: int = 0) -> None:
        """How far the work is; shown with the next beat."""
        self._pulse = Pulse(owner=self._pulse.owner, stage=stage, done=done, total=total)
        self.check()

    def check(self) -> None:
        """Starts the thread again if it died, and fails the work if that does not help."""
        if self._ticker.is_alive:
            return
        failure = self._ticker.failure
        self._restarts += 1
        if self._restarts > _MOST_RESTARTS:
            raise FencedError(f"{self._path}: the heartbeat died {self._restarts} times ({failure!r}); stop this work") from failure
        self._ticker.start()

    def leave(self) -> None:
        """Stops where others may work on: a last beat gives them all the time there is, and the object stays."""
        self._ticker.stop()
        self.beat()

    def stop(self) -> None:
        """With the work. A crash before the deletion leaves an object that a clean removes."""
        self._ticker.stop()
        with suppress(NeedlefishError):
            self._store.delete([self._path])


def store_time_ms(store: Store, runtime: Runtime) -> int:
    """What time it is where objects get theirs: of one that was put just now."""
    path = f"{_CLOCK_PREFIX}{runtime.new_id()}"
    store.put(path, b"")
    try:
        return store.head(path).modified_ms
    finally:
        with suppress(NeedlefishError):
            store.delete([path])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulses:
    """All heartbeats of a table at one moment of the store's time."""

    now_ms: int
    seen_ms: Mapping[str, int] = field(default_factory=dict)
    expired_ms: int

    def age_ms(self, attempt: str) -> int | None:
        """Since the last beat; None without any."""
        seen = self.seen_ms.get(attempt)
        return None if seen is None else max(0, self.now_ms - seen)

    def is_alive(self, attempt: str) -> bool:
        age = self.age_ms(attempt)
        return age is not None and age <= self.expired_ms


def read_pulses(store: Store, properties: Properties, runtime: Runtime) -> Pulses:
    """One list, and three requests for the store's time. Beats are read before the time, so that none seems to be in the future."""
    listed = {found.path.removeprefix(HEARTBEAT_PREFIX): found.modified_ms for found in store.list(HEARTBEAT_PREFIX)}
    return Pulses(
        now_ms=store_time_ms(store, runtime),
        seen_ms=listed,
        expired_ms=round(properties.heartbeat_seconds * properties.heartbeats_missed * 1000),
    )


def read_pulse(store: Store, attempt: str) -> Pulse | None:
    """What an attempt says of itself."""
    try:
        return unseal(store.get(heartbeat_path(attempt)), Pulse, heartbeat_path(attempt))
    except NotFoundError:
        return None


# How far work is: a stage, and so many of so many.
Say = Callable[[str, int, int], None]
