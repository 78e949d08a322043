"""Every question from 100 to 10,000 files: `python -m benchmarks.growth --files 100 1000 10000 --questions loaded`.

Files stay as long as they are, so that a question whose time follows the table grows a hundredfold, and one that does not, does not.
The result goes to benchmarks/results/growth-WORKLOAD.json, one comparison for each size.
"""

import sys
from collections.abc import Sequence

from benchmarks.compare import arguments, disagreements, run, shown
from benchmarks.record import console, keep, machine
from benchmarks.workloads import WORKLOADS, Sizes


def main(words: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__)
    # At the largest size some take half a minute for a find.
    parser.set_defaults(rows=2_000, patience_seconds=5)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="requests")
    parser.add_argument("--files", type=int, nargs="+", default=[100, 1_000, 10_000])
    given = parser.parse_args(words)
    before = machine()
    terminal = console()
    steps, wrong = [], []
    for files in given.files:
        found = run(given, given.workload, Sizes(files=files, rows=given.rows))
        terminal.print(shown(found))
        steps.append(found.encode())
        wrong += [f"{files} files: {line}" for line in disagreements(found)]
        # Kept after each size, so that a long run that is stopped leaves what it has.
        path = keep(given.out or f"growth-{given.workload}", {"workload": given.workload, "steps": steps}, before)
    terminal.print(f"{'all rows agree' if not wrong else 'OTHER ROWS: ' + ', '.join(wrong)}; written to {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
