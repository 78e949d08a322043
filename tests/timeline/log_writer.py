"""A process that appends to a log: one race per line of standard input, one line of counts back. Not a test itself."""

import json
import sys
from typing import Any

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.model.log import TableState, Totals
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, layered
from needlefish.store.location import locate
from needlefish.store.open import open_bare, shape_of
from needlefish.testing.faulty_store import Fault, FaultyStore, seeded
from needlefish.timeline import Log, Proposal, read_newest


def _store(race: dict[str, Any]) -> tuple[RetriedStore, FaultyStore]:
    """Faults lie below the meter and the retries, as those of a real store do."""
    location = locate(race["uri"])
    bare = open_bare(location, race["options"])
    faulty = FaultyStore(bare, seeded(race["writer"], {Fault.LOST_RESPONSE: race["lost"]}))
    config = StoreConfig(uri=location.uri, options=race["options"], retry=RetryPolicy(attempts=8, base_seconds=0.001))
    return layered(faulty, config=config, shape=shape_of(location, race["options"])), faulty


def _propose(state: TableState | None) -> Proposal:
    assert state is not None
    return Proposal(action="append", added=Totals(rows=1))


def _run(race: dict[str, Any]) -> dict[str, object]:
    store, faulty = _store(race)
    state, versions = read_newest(store), []
    log = Log(store, f"writer {race['writer']}", SYSTEM)
    for _ in range(race["appends"]):
        state = log.append(state, _propose)
        versions.append(state.version)
    return {
        "versions": versions,
        "requests": store.meter.snapshot().requests,
        "lost": sum(call.kind == "put_if_absent" for call, _ in faulty.injected),
    }


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
