"""Where a soak happens: the table's address, how its store fails, and a folder for notes that all processes share."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from needlefish.config import StoreConfig
from needlefish.errors import AlreadyExistsError
from needlefish.format.log_entry import LOG_PREFIX
from needlefish.store import RetriedStore, Store, layered
from needlefish.store.location import locate
from needlefish.store.mapping import local_path
from needlefish.store.open import open_bare, shape_of
from needlefish.testing.faulty_store import Fault, FaultyStore, seeded

# Shares of all calls.
FAULTS = {Fault.LOST_RESPONSE: 0.01, Fault.UNAVAILABLE: 0.01, Fault.SLOW: 0.01}
_SLOW_SECONDS = 0.2
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Travels to every process as JSON."""

    uri: str
    folder: str
    seed: int
    options: Mapping[str, str] = field(default_factory=dict)
    faulty: bool = False
    # A machine on which a dozen processes share two cores keeps some of them waiting for seconds.
    heartbeat_seconds: float = 5.0

    @property
    def grace_seconds(self) -> float:
        """As long as a heartbeat takes to expire, which is how long a clean leaves plans and first beats alone in any case."""
        return 2 * self.heartbeat_seconds

    def say(self, word: str) -> None:
        """For all processes to see."""
        (Path(self.folder) / f"{word}.said").touch()

    def is_said(self, word: str) -> bool:
        return (Path(self.folder) / f"{word}.said").exists()

    @property
    def is_over(self) -> bool:
        return self.is_said("over")

    def begin(self, who: str) -> None:
        """Waits until all are ready: starting takes a machine with few cores its time."""
        self.say(who)
        while not self.is_said("begin"):
            time.sleep(_LOOK_SECONDS)

    def notes(self, name: str) -> Path:
        return Path(self.folder) / f"{name}.jsonl"

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def decode(text: str) -> "Place":
        return Place(**json.loads(text))


class RacedStore:
    """Counts the numbers of the log that somebody else had first."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def local_path(self, path: str) -> str | None:
        return local_path(self._inner, path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        try:
            self._inner.put_if_absent(path, data)
        except AlreadyExistsError:
            self.lost += path.startswith(LOG_PREFIX)
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A store in one process, and what it met."""

    store: RetriedStore
    raced: RacedStore
    faulty: FaultyStore | None

    def met(self) -> dict[str, object]:
        injected = [] if self.faulty is None else self.faulty.injected
        return {
            "requests": self.store.meter.snapshot().requests,
            "lost_races": self.raced.lost,
            "faults": dict(Counter(fault.name.lower() for _, fault in injected)),
        }


def opened(place: Place, who: int, *, faulty: bool | None = None) -> Opened:
    """`who` draws its own faults."""
    location = locate(place.uri)
    bare = open_bare(location, place.options)
    failing = None
    if place.faulty if faulty is None else faulty:
        failing = FaultyStore(bare, seeded(place.seed + who, FAULTS), slow_seconds=_SLOW_SECONDS)
        bare = failing
    raced = RacedStore(bare)
    config = StoreConfig(uri=location.uri, options=place.options)
    store = layered(raced, config=config, shape=shape_of(location, place.options))  # type: ignore[arg-type]
    return Opened(store=store, raced=raced, faulty=failing)
