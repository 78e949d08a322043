"""A finder: finds and scans on handles that are fresh or kept for a while. It notes what it saw, and between which moments."""

import random
import time
from collections import Counter

import needlefish as nf
from benchmarks.soak.notes import Notes
from benchmarks.soak.place import Place, opened
from benchmarks.soak.rows import KEYS, text_of
from needlefish.errors import NeedlefishError, NotFoundError
from needlefish.timeline import read_newest

_PAUSE_SECONDS = 0.1
# Reads of a handle before it is refreshed.
_KEPT_READS = 4


def find(place: Place, number: int) -> None:
    """Until the soak is over."""
    chance = random.Random(place.seed * 37 + number)
    here = opened(place, 200 + number)
    notes = Notes(place.notes(f"finder-{number}"))
    place.begin(f"finder-{number}")
    totals: Counter[str] = Counter()
    while not place.is_over:
        begin = time.monotonic()
        table = nf.Table(here.store, read_newest(here.store))
        known = time.monotonic()
        for _ in range(chance.randint(1, _KEPT_READS)):
            try:
                _look(table, chance, notes, totals, begin, known)
            except NeedlefishError as error:
                _failed(error, time.monotonic() - begin, place.grace_seconds, notes, totals)
                break
            time.sleep(chance.uniform(0, 2 * _PAUSE_SECONDS))
    notes.add(totals=totals, **here.met())
    notes.close()


def _look(table: nf.Table, chance: random.Random, notes: Notes, totals: Counter[str], begin: float, known: float) -> None:
    """The handle's version came to be between `begin` and `known`, whenever it is read."""
    if chance.random() < 0.2:
        asked = list(range(KEYS))
        rows = table.scan().to_pylist()
        totals["scans"] += 1
    else:
        asked = sorted(chance.sample(range(KEYS), chance.choice([1, 1, 1, 8, 40])))
        rows = table.find(id=asked).to_pylist()
        totals["finds"] += 1
    totals["keys"] += len(asked)
    wrong = [row for row in rows if row["text"] != text_of(row["id"], row["seq"])]
    notes.add(begin=begin, known=known, version=table.version, asked=asked, seen=[(row["id"], row["seq"]) for row in rows], wrong=wrong)


def _failed(error: NeedlefishError, age: float, grace: float, notes: Notes, totals: Counter[str]) -> None:
    """A handle may be older than what is kept for readers; nothing else is allowed to fail."""
    if isinstance(error, NotFoundError) and "was cleaned" in str(error) and age >= grace:
        totals["handles that were too old"] += 1
        return
    totals["failed"] += 1
    notes.add(failure=type(error).__name__, why=str(error), age=age)
