"""Runs the experiments, prints them, keeps the result, draws the figures."""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.point_index import buckets, build, lance_build, latency, rates, readers, s3_cost
from benchmarks.point_index.budgets import judged
from benchmarks.point_index.plots import draw
from benchmarks.point_index.runs import allow_kernels
from benchmarks.point_index.scale import LARGE, USUAL, Scale
from benchmarks.point_index.tables import tables
from benchmarks.record import RESULTS, console, keep, machine

EXPERIMENTS: Mapping[str, Callable[[Scale], object]] = {
    "build": build.measure,
    "latency": latency.measure,
    "buckets": buckets.measure,
    "rates": rates.measure,
    "readers": readers.measure,
    "s3": s3_cost.measure,
    "lance": lance_build.measure,
}


def measure(scale: Scale, names: Sequence[str]) -> dict[str, Any]:
    """Each experiment with the load it began under: the machine may have other things to do."""
    result: dict[str, Any] = {"scale": asdict(scale), "seconds": {}, "load": {}}
    for name in names:
        start, result["load"][name] = time.perf_counter(), round(os.getloadavg()[0], 2)
        result[name] = EXPERIMENTS[name](scale)
        result["seconds"][name] = round(time.perf_counter() - start, 1)
        console().print(f"{name}: {result['seconds'][name]} s, load before {result['load'][name]}")
    return result


def redraw() -> None:
    """The usual result's figures, and those of the largest where it was measured."""
    for scale in (USUAL, LARGE):
        path = RESULTS / f"{scale.name}.json"
        if path.exists():
            console().print(*draw(json.loads(path.read_text()), scale.name), sep="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.point_index", description=__doc__)
    parser.add_argument("--large", action="store_true", help="the largest that fits; kept as point_index_large.json")
    parser.add_argument("--plots", action="store_true", help="measure nothing: redraw the figures from the kept results")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, help="print some experiments alone; nothing is kept")
    options = parser.parse_args(arguments)
    if options.plots:
        redraw()
        return 0
    scale, before = LARGE if options.large else USUAL, machine()
    allow_kernels()
    result = measure(scale, options.only or list(EXPERIMENTS))
    budgets = judged(result)
    console().print(*tables(result, budgets))
    if not options.only:
        path = keep(scale.name, {**result, "budgets": [asdict(budget) for budget in budgets]}, before)
        console().print(f"kept as {path}", *draw(json.loads(path.read_text()), scale.name), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
