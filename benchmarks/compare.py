"""The peers side by side: `python -m benchmarks.compare --workload requests --files 1000 --rows 20000 --peers all`.

The result goes to benchmarks/results/compare-WORKLOAD.json unless `--out` names another file there. Exits with 1 when a peer
gave other rows than we did.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.table import Table

from benchmarks.outcomes import Outcome
from benchmarks.peers import chosen_peers
from benchmarks.questions import chosen_questions
from benchmarks.record import console, keep, machine, progress
from benchmarks.runner import PATIENCE_SECONDS, Comparison, compare
from benchmarks.seats import ProcessSeat
from benchmarks.workloads import WORKLOADS, Sizes


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What every benchmark beside the peers takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="rows in each file")
    parser.add_argument("--peers", type=chosen_peers, default=chosen_peers("all"), help="all, or names with commas")
    parser.add_argument("--questions", type=chosen_questions, default=chosen_questions("all"), help="all, a stage, or names with commas")
    parser.add_argument("--folder", type=Path, help="where the tables go while measuring; a temporary one by default")
    parser.add_argument("--limit-seconds", type=float, default=300, help="after which a peer has failed at a question")
    parser.add_argument(
        "--patience-seconds", type=float, default=PATIENCE_SECONDS, help="after which a slow reader skips the rest of a question"
    )
    parser.add_argument("--out", help="the name of the result")
    return parser


def run(given: argparse.Namespace, workload: str, sizes: Sizes) -> Comparison:
    """In a folder that is gone afterwards, each peer in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="needlefish-bench-", dir=given.folder))
    try:
        seating = partial(ProcessSeat, limit_seconds=given.limit_seconds)
        with progress() as say:
            return compare(WORKLOADS[workload](sizes), given.peers, given.questions, folder, seating, say, given.patience_seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def shown(found: Comparison) -> Table:
    sizes = found.workload.sizes
    table = Table(title=f"{found.workload.name}: {sizes.files:,} files x {sizes.rows:,} rows, median ms")
    table.add_column("question")
    for name in found.loads:
        table.add_column(name, justify="right")
    table.add_row("load", *(cell(load) for load in found.loads.values()))
    for name, peers in found.outcomes.items():
        table.add_row(found.titles[name], *(cell(peers[peer]) for peer in found.loads))
    return table


def cell(found: Outcome) -> str:
    if found.status != "ok":
        return "-" if found.status == "unsupported" else "failed"
    wrong = " WRONG ROWS" if found.agrees is False else ""
    digits = 1 if found.median_ms is not None and found.median_ms < 100 else 0
    return f"{found.median_ms:,.{digits}f}{wrong}"


def reasons(found: Comparison) -> list[str]:
    """Every dash and every failure of the table in words, those of one kind together."""
    said: dict[str, dict[str, list[str]]] = {}
    for name, peers in {"load": found.loads, **found.outcomes}.items():
        for peer, what in peers.items():
            if what.status != "ok":
                said.setdefault(what.reason, {}).setdefault(name, []).append(peer)
    return [f"{question} ({', '.join(peers)}): {reason}" for reason, where in said.items() for question, peers in where.items()]


def disagreements(found: Comparison) -> list[str]:
    return [f"{peer} {name}" for name, peers in found.outcomes.items() for peer, what in peers.items() if what.agrees is False]


def main(words: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="requests")
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of files")
    given = parser.parse_args(words)
    before = machine()
    found = run(given, given.workload, Sizes(files=given.files, rows=given.rows).scaled(given.scale))
    path = keep(given.out or f"compare-{given.workload}", found.encode(), before)
    terminal = console()
    terminal.print(shown(found))
    for line in reasons(found):
        terminal.print(line, highlight=False, markup=False)
    wrong = disagreements(found)
    terminal.print(f"{'all rows agree' if not wrong else 'OTHER ROWS: ' + ', '.join(wrong)}; written to {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
