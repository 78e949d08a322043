"""A service worker: the loop of `needlefish tend`, in this process, as often as it can."""

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.soak.notes import Notes
from benchmarks.soak.place import Place, opened
from needlefish.services.here_worker import here_worker
from needlefish.services.stopping import Stop
from needlefish.services.tend import Event, TendedTable, TendOptions

_OPTIONS = TendOptions(every_seconds=0.5, clean_every_seconds=4.0)


class Teller:
    """Notes every event."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.totals: Counter[str] = Counter()

    def tell(self, event: Event) -> None:
        self.totals[f"{event.action} {event.outcome}"] += 1
        self._notes.add(at=time.monotonic(), **dataclasses.asdict(event))

    @contextmanager
    def doing(self, table: str, what: str) -> Iterator[None]:
        yield


def tend(place: Place, number: int) -> None:
    """Until it is asked to stop, some time after the writers."""
    here = opened(place, 100 + number)
    notes = Notes(place.notes(f"tender-{number}"))
    place.begin(f"tender-{number}")
    teller, stop = Teller(notes), Stop()
    table = TendedTable(here.store, _OPTIONS, here_worker, teller, stop)
    while not place.is_said("tended"):
        table.tend()
        time.sleep(_OPTIONS.every_seconds)
    notes.add(totals=teller.totals, **here.met())
    notes.close()
