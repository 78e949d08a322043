"""Figures in documents, written from the result files: `python -m benchmarks.figures`.

What stands between `<!-- figures NAME -->` and `<!-- end of figures -->` in a document is made here and nowhere else; a test fails
when a document and the results say different things.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.budgets import judged
from benchmarks.charts import shown
from benchmarks.peers import OURS
from benchmarks.record import RESULTS

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "performance.md")
_BLOCK = re.compile(r"(<!-- figures ([a-z0-9-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
Result = Mapping[str, Any]
_FINDS = ("find_one", "find_one_cold", "find_absent", "find_many", "find_by_column")


def written(text: str, results: Path, document: Path) -> str:
    """The document with its figures as the results have them."""

    def block(found: re.Match[str]) -> str:
        name = found[2]
        make, source = BLOCKS[name]
        there = not source or (results / f"{source}.json").exists()
        lines = make(results, source, document) if there else [f"Not measured at its size yet: {source}.json."]
        return found[1] + "\n".join(lines) + "\n" + found[3]

    return _BLOCK.sub(block, text)


def finds(results: Path, source: str, document: Path) -> Iterator[str]:
    """Peers down, finds across: milliseconds."""
    result = _read(results, source)
    questions = [found for found in result["questions"] if found["name"] in _FINDS]
    rows = [
        [_named(peer), *(_cell(question["peers"][peer]) for question in questions)]
        for peer in sorted(result["peers"], key=lambda name: questions[0]["peers"][name]["median_ms"] or 1e9)
    ]
    yield from _table(["ms", *(question["title"] for question in questions)], rows)
    yield _origin(result, results / f"{source}.json", document)


def comparison(results: Path, source: str, document: Path) -> Iterator[str]:
    """Questions down, peers across: milliseconds."""
    result = _read(results, source)
    peers = list(result["peers"])
    rows = [["load", *(_cell(result["peers"][peer]["load"]) for peer in peers)]]
    rows += [[question["title"], *(_cell(question["peers"][peer]) for peer in peers)] for question in result["questions"]]
    yield from _table([f"ms, {result['files']:,} files of {result['rows_per_file']:,} rows", *map(_named, peers)], rows)
    yield _origin(result, results / f"{source}.json", document)


def upserts(results: Path, source: str, document: Path) -> Iterator[str]:
    result = _read(results, source)
    rows = []
    for name, peer in result["peers"].items():
        for number, run in enumerate(peer.get("runs", ()), 1):
            times = run["written_bytes"] / run["batch_bytes"]
            numbers = (run["seconds"], run["written_bytes"] / 1e6, times, run["peak_bytes"] / 1e6)
            rows.append([f"{_named(name)}, run {number}", *map(shown, numbers)])
        if peer["status"] != "ok":
            rows.append([_named(name), f"{peer['status']}: {peer['reason'].splitlines()[0][:80]}", "", "", ""])
    yield from _table(["", "seconds", "MB written", "times the batch", "MB of memory at most"], rows)
    yield _origin(result, results / f"{source}.json", document)


def costs(results: Path, source: str, document: Path) -> Iterator[str]:
    result = _read(results, source)
    rows = []
    for name, peer in result["peers"].items():
        for question, cost in peer["questions"].items():
            numbers = (cost["median_ms"], cost["requests"], cost["bytes"] / 1000, cost["dollars_per_million"])
            told = [shown(number) for number in numbers] if cost["status"] == "ok" else ["–", "–", "–", "–"]
            rows.append([_named(name), question.replace("_", " "), *told])
    yield from _table(["", "", "ms", "requests", "KB", "$ for a million"], rows)
    yield _origin(result, results / f"{source}.json", document)


def growth(results: Path, source: str, document: Path) -> Iterator[str]:
    """By peer the time at each number of files, of the questions that matter most."""
    result = _read(results, source)
    steps = result["steps"]
    rows = []
    for question in (found for found in steps[0]["questions"] if found["name"] in ("find_one", "find_absent", "upsert_0.01%", "scan")):
        for peer in steps[0]["peers"]:
            asked = [next(found for found in step["questions"] if found["name"] == question["name"])["peers"][peer] for step in steps]
            if any(found["status"] == "ok" for found in asked):
                rows.append([question["title"], _named(peer), *map(_cell, asked)])
    yield from _table(["ms", "", *(f"{step['files']:,} files" for step in steps)], rows)
    yield _origin(result, results / f"{source}.json", document)


def scans(results: Path, source: str, document: Path) -> Iterator[str]:
    result = _read(results, source)
    rows = [
        [name, f"{found['plain']['median']:.2f} s", f"{found['hidden']['median']:.2f} s", f"{found['ratio']['median']:.2f}"]
        for name, found in result["results"].items()
    ]
    yield from _table(["medians", "plain Parquet", "5% hidden", "times"], rows)
    yield _origin(result, results / f"{source}.json", document)


_PARTS = {
    "find": "a find of a key in a file that the handle has not read yet",
    "reads": "to open and read the index page, the footer and the granule, page cache warm",
    "footer": "to parse the footer, in pyarrow",
    "decode": "to decode the granule, in pyarrow",
    "absent": "a find of a key that is not there",
}


def parts(results: Path, source: str, document: Path) -> Iterator[str]:
    result = _read(results, source)
    found = result["microseconds"]
    rows = [[words, f"{found[name]:,.0f}"] for name, words in _PARTS.items()]
    rows.insert(4, ["what is left: Python, ours and pyarrow's", f"{found['find'] - result['bound']:,.0f}"])
    yield from _table(["", "microseconds"], rows)
    yield _origin(result, results / f"{source}.json", document)


def budgets(results: Path, source: str, document: Path) -> Iterator[str]:
    rows = [[found.what, found.budget, found.measured, "yes" if found.met else "**no**"] for found in judged(results)]
    yield from _table(["budget", "promised", "measured", "met"], rows)


BLOCKS: Mapping[str, tuple[Callable[[Path, str, Path], Iterator[str]], str]] = {
    "finds": (finds, "compare-requests"),
    "requests": (comparison, "compare-requests"),
    "events": (comparison, "compare-events"),
    "orders": (comparison, "compare-orders"),
    "upsert": (upserts, "upsert"),
    "objectstore": (costs, "objectstore"),
    "growth": (growth, "growth-requests"),
    "parts": (parts, "find_parts"),
    "scans": (scans, "skips"),
    "budgets": (budgets, ""),
}


def _read(results: Path, name: str) -> Any:
    return json.loads((results / f"{name}.json").read_text())


def _named(peer: str) -> str:
    return f"**{peer}**" if peer == OURS else peer


def _cell(found: Result) -> str:
    if found["status"] != "ok":
        return "failed" if found["status"] == "failed" else "–"
    return shown(found["median_ms"]) + (" **wrong rows**" if found["agrees"] is False else "")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _origin(result: Result, path: Path, document: Path) -> str:
    machine = result["machine"]
    up = "../" * (len(document.relative_to(ROOT).parts) - 1)
    where = f"[{path.name}]({up}benchmarks/results/{path.name})"
    return f"\n{where}: {machine['date']}, commit {machine['commit']}, {machine['processor']}, {machine['cores']} cores, load {machine['load_before']} before."


def main() -> int:
    for document in DOCUMENTS:
        before = document.read_text()
        after = written(before, RESULTS, document)
        document.write_text(after)
        print(f"{document.relative_to(ROOT)}: {'as it was' if after == before else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
