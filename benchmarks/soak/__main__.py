"""The command: `python -m benchmarks.soak --on local --seconds 180`. Fails if anything was wrong."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.record import keep, machine
from benchmarks.soak.finder import find
from benchmarks.soak.place import FAULTS, Place
from benchmarks.soak.run import soak
from benchmarks.soak.tender import tend
from benchmarks.soak.writer import write
from needlefish.testing.s3 import s3_server

_PARTS = {"writer": write, "tender": tend, "finder": find}


@contextmanager
def place_on(where: str, seed: int, heartbeat_seconds: float) -> Iterator[Place]:
    """A new table on a disk, or on an S3 that fails now and then."""
    with tempfile.TemporaryDirectory() as folder:
        local = Place(uri=f"{folder}/table", folder=folder, seed=seed, heartbeat_seconds=heartbeat_seconds)
        if where == "local":
            yield local
            return
        with s3_server() as server:
            yield replace(local, uri=server.config("soak").uri, options=dict(server.options), faulty=True)


def shown(found: dict[str, Any]) -> str:
    lines = [f"{name}: {found[name]}" for name in ("writers", "services", "finders", "end")]
    if found["samples"]:
        lines.append(f"last sample: {found['samples'][-1]}")
    return "\n".join([*lines, *found["examples"], f"{found['wrong']} wrong"])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description=__doc__)
    parser.add_argument("--on", choices=("local", "s3"), default="local")
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two samples")
    parser.add_argument("--seed", type=int, default=20261116)
    parser.add_argument("--heartbeat", type=float, default=5.0, help="seconds between two beats")
    parser.add_argument("--out", help="name of the result; soak_local or soak_s3 if absent")
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--role", choices=sorted(_PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.role:
        _PARTS[given.role](Place.decode(given.place), given.number)
        return 0
    before = machine()
    with place_on(given.on, given.seed, given.heartbeat) as place:
        found = soak(place, given.seconds, given.every)
    print(shown(found))
    if given.keep:
        told = {"on": given.on, "seconds": given.seconds, "seed": given.seed}
        faults = {fault.name.lower(): rate for fault, rate in FAULTS.items()} if given.on == "s3" else {}
        print(_kept(given.out or f"soak_{given.on}", {**told, "fault_rates": faults, **found}, before))
    return 1 if found["wrong"] else 0


def _kept(name: str, result: dict[str, Any], before: dict[str, object]) -> Path:
    from benchmarks.soak.plot import plot

    plot(name, result)
    return keep(name, result, before)


if __name__ == "__main__":
    sys.exit(main())
