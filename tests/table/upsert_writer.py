"""A process that upserts and deletes: one race per line of standard input, one line of what it did back. Not a test itself."""

import json
import sys
from random import Random
from typing import Any

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.store import RetriedStore, layered
from needlefish.store.location import locate
from needlefish.store.open import open_bare, shape_of
from needlefish.table.history import read_history
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.faulty_store import FaultyStore
from needlefish.timeline import read_newest


def _store(race: dict[str, Any]) -> tuple[RetriedStore, FaultyStore]:
    """Nothing fails: the faulty store is there because it remembers every call."""
    location = locate(race["uri"])
    seen = FaultyStore(open_bare(location, race["options"]))
    config = StoreConfig(uri=location.uri, options=race["options"], retry=RetryPolicy(attempts=8, base_seconds=0.001))
    return layered(seen, config=config, shape=shape_of(location, race["options"])), seen


def _change(store: RetriedStore, race: dict[str, Any], number: int, random: Random) -> dict[str, Any]:
    """One change of random keys, and the version at which it became true; none if there was nothing to delete."""
    kind = random.choice(race["kinds"])
    host = race.get("host")
    ids = random.sample(range(race["ids"]), race["keys"])
    rows = [{"id": id_, "host": host or "ab"[id_ % 2], "n": random.randrange(100), "s": f"{race['writer']} {number}"} for id_ in ids]
    base = read_newest(store)
    if kind == "delete":
        state, result = delete_table(store, base, [{"id": row["id"], "host": row["host"]} for row in rows])
        # Its last entry: the delete, or the step that says that nothing was to be done.
        (last,) = read_history(store, state, 1, steps=True)
        version = state.version if last.action == "delete" else None
        return {"version": version, "kind": kind, "rows": rows, "healed": result.healed, "deleted": result.deleted}
    state, upserted = upsert_table(store, base, rows, order_by="n" if kind == "ordered" else None)
    counts = [upserted.inserted, upserted.replaced, upserted.late]
    return {"version": state.version, "kind": kind, "rows": rows, "healed": upserted.healed, "counts": counts}


def _run(race: dict[str, Any]) -> dict[str, Any]:
    store, seen = _store(race)
    random = Random(race["writer"])
    changes = [_change(store, race, number, random) for number in range(race["rounds"])]
    read = sorted({call.path for call in seen.calls if call.kind in ("get", "get_range") and call.path.startswith("data/")})
    return {"changes": changes, "read": read}


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
