"""A writer: upserts and deletes of keys that others write too. Each is noted before it begins and when it is acknowledged."""

import random
import time
from collections import Counter

from benchmarks.soak.notes import Notes
from benchmarks.soak.place import Place, opened
from benchmarks.soak.rows import KEPT, SHARED, own_keys, row, seq_of
from needlefish.errors import NeedlefishError
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.timeline import catch_up, read_newest

_BATCH = 12
_PAUSE_SECONDS = 0.3
_DELETES = 0.25


def write(place: Place, number: int) -> None:
    """Until the soak is over."""
    chance = random.Random(place.seed * 31 + number)
    here = opened(place, number)
    notes = Notes(place.notes(f"writer-{number}"))
    place.begin(f"writer-{number}")
    state = read_newest(here.store)
    totals: Counter[str] = Counter()
    count = 0
    while not place.is_over:
        count += 1
        deletes = chance.random() < _DELETES
        keys = _keys(chance, number, deletes=deletes)
        seq = seq_of(number, count)
        kind = "delete" if deletes else "upsert"
        notes.add(op=count, kind=kind, seq=seq, keys=keys, begin=time.monotonic())
        try:
            state = catch_up(here.store, state) or state
            if deletes:
                rows = [{"id": key, "part": row(key, seq)["part"]} for key in keys]
                state, result = delete_table(here.store, state, rows)
            else:
                state, result = upsert_table(here.store, state, [row(key, seq) for key in keys], order_by="seq")  # type: ignore[assignment]
        except NeedlefishError as error:
            # Whether it happened is open; finders may see it or not.
            notes.add(failed=count, error=type(error).__name__, why=str(error))
            totals[f"aborted {type(error).__name__}"] += 1
            continue
        notes.add(ack=count, at=time.monotonic(), version=result.version)
        totals.update({kind: 1, "healed": result.healed, "upsert_requests": result.requests})
        time.sleep(chance.uniform(0, 2 * _PAUSE_SECONDS))
    notes.add(totals=totals, **here.met())
    notes.close()


def _keys(chance: random.Random, number: int, *, deletes: bool) -> list[int]:
    """Of all kinds; what is kept is never deleted."""
    pool = [*range(KEPT if deletes else 0, SHARED), *own_keys(number)]
    return sorted(chance.sample(pool, _BATCH))
