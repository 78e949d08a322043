"""One report from all result files: `python -m benchmarks.report` writes benchmarks/results/report.html and benchmarks/plots/.

The page stands alone, with its plots inside. README's chart is benchmarks/plots/find-requests.svg, made here from
benchmarks/results/compare-requests.json and from nothing else.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.budgets import judged
from benchmarks.charts import bars, lines, save
from benchmarks.record import RESULTS
from benchmarks.report_tables import (
    budgets_table,
    comparison_table,
    costs_table,
    machine_line,
    page,
    reasons_list,
    setups_list,
    upsert_table,
)

PLOTS = Path(__file__).parent / "plots"
Result = Mapping[str, Any]
# What the chart at the top of a workload shows, and what the one about changes does.
_FINDS = ("find_one", "find_absent", "find_many", "find_by_column")
_CHANGES = ("upsert_0.01%", "upsert_1%", "upsert_10%", "delete_1%")
_SCANS = ("scan", "scan_changed", "scan_maintained")


def report(results: Path, plots: Path) -> str:
    """The page; what has not been measured yet is named on it."""
    parts = [budgets(results)]
    for path in sorted(results.glob("compare-*.json")):
        parts += comparison(json.loads(path.read_text()), path, plots)
    for name, section in (("upsert", upsert), ("objectstore", objectstore)):
        path = results / f"{name}.json"
        parts += section(json.loads(path.read_text()), path, plots) if path.exists() else [_missing(name)]
    for path in sorted(results.glob("growth-*.json")):
        parts += growth(json.loads(path.read_text()), path, plots)
    return page(parts)


def budgets(results: Path) -> str:
    return f"<h2>What was promised</h2>{budgets_table(judged(results))}"


def comparison(result: Result, path: Path, plots: Path) -> Iterator[str]:
    yield heading(f"{result['workload']}: {result['files']:,} files of {result['rows_per_file']:,} rows", result, path)
    by_name = {question["name"]: question for question in result["questions"]}
    caption = f"{result['files']:,} files of {result['rows_per_file']:,} rows; medians with 10th and 90th percentile; shorter is better"
    for chart, names in (("find", _FINDS), ("change", _CHANGES), ("scan", _SCANS)):
        panels = [(by_name[name]["title"], by_name[name]["peers"]) for name in names if name in by_name]
        if panels:
            yield inlined(save(bars(panels, "median_ms", "ms", caption=caption), plots, f"{chart}-{result['workload']}"))
    written = [(by_name[name]["title"], by_name[name]["peers"]) for name in _CHANGES if name in by_name]
    if written:
        yield inlined(
            save(bars(written, "written_bytes", "MB written", factor=1e-6, caption=caption), plots, f"written-{result['workload']}")
        )
    yield comparison_table(result)
    yield reasons_list(result)
    yield setups_list(result)


def upsert(result: Result, path: Path, plots: Path) -> Iterator[str]:
    """Its own processes, so that memory can be told apart."""
    yield heading(f"Upsert of {result['share']:.0%} into {result['files']:,} files of {result['rows_per_file']:,} rows", result, path)
    last = {name: {"reason": "", **peer, **(peer.get("runs") or [{}])[-1]} for name, peer in result["peers"].items()}
    for measure, unit, factor in (
        ("seconds", "s", 1.0),
        ("written_bytes", "MB written", 1e-6),
        ("peak_bytes", "MB of memory at most", 1e-6),
    ):
        yield inlined(save(bars([("last run", last)], measure, unit, factor=factor), plots, f"upsert-{measure}"))
    yield upsert_table(result)


def objectstore(result: Result, path: Path, plots: Path) -> Iterator[str]:
    yield heading(f"On S3, {result['delay_ms']} ms a request: {result['files']:,} files of {result['rows_per_file']:,} rows", result, path)
    names = list(dict.fromkeys(name for peer in result["peers"].values() for name in peer["questions"]))
    for measure, unit in (("median_ms", "ms"), ("requests", "requests"), ("dollars_per_million", "$ a million finds")):
        panels = [(name, {peer: found["questions"][name] for peer, found in result["peers"].items()}) for name in names]
        yield inlined(save(bars(panels, measure, unit), plots, f"objectstore-{measure}"))
    yield costs_table(result)


def growth(result: Result, path: Path, plots: Path) -> Iterator[str]:
    steps = result["steps"]
    yield heading(f"Growth of {result['workload']} from {steps[0]['files']:,} to {steps[-1]['files']:,} files", result, path)
    panels = []
    for question in steps[0]["questions"]:
        points: dict[str, list[tuple[float, float]]] = {}
        for step in steps:
            peers = next((found["peers"] for found in step["questions"] if found["name"] == question["name"]), {})
            for name, found in peers.items():
                if found["status"] == "ok":
                    points.setdefault(name, []).append((step["files"], found["median_ms"]))
        if points:
            panels.append((question["title"], points))
    yield inlined(save(lines(panels, "files", "ms"), plots, f"growth-{result['workload']}"))
    for step in steps:
        yield f"<details><summary>{step['files']:,} files</summary>{comparison_table(step)}{reasons_list(step)}</details>"


def heading(title: str, result: Result, path: Path) -> str:
    return f"<h2>{escape(title)}</h2><p class=quiet>{machine_line(result['machine'])} · {escape(path.name)}</p>"


def inlined(path: Path) -> str:
    """The drawing without its XML prologue, which has no place inside a page."""
    text = path.read_text()
    return f"<figure>{text[text.index('<svg') :]}</figure>"


def _missing(name: str) -> str:
    return f"<h2>{name}</h2><p>Not measured yet: <code>python -m benchmarks.{name}</code></p>"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plots", type=Path, default=PLOTS)
    given = parser.parse_args(words)
    path = given.results / "report.html"
    path.write_text(report(given.results, given.plots))
    print(f"written to {path}, plots in {given.plots}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
