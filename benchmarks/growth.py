"""Every question from 100 to 10,000 files: `python -m benchmarks.growth --files 100 1000 10000 --questions loaded`.

Files stay as long as they are, so that a question whose time follows the table grows a hundredfold, and one that does not, does not.
The result goes to benchmarks/results/growth-WORKLOAD.json, one comparison for each size. With `--add` the sizes that it has already
stay; each tells the commit that it was measured at.
"""

import json
import sys
from collections.abc import Sequence

from benchmarks.compare import arguments, disagreements, run, shown
from benchmarks.record import RESULTS, console, keep, machine
from benchmarks.workloads import WORKLOADS, Sizes


def earlier(name: str, rows: int) -> dict[int, dict[str, object]]:
    """The steps of the result by their number of files, of files as long as these."""
    path = RESULTS / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {"steps": []}
    return {step["files"]: {"commit": found["machine"]["commit"], **step} for step in found["steps"] if step["rows_per_file"] == rows}


def main(words: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__)
    # At the largest size some take half a minute for a find.
    parser.set_defaults(rows=2_000, patience_seconds=5)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="requests")
    parser.add_argument("--files", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--add", action="store_true", help="keep the other sizes that the result has")
    given = parser.parse_args(words)
    name = given.out or f"growth-{given.workload}"
    before = machine()
    terminal = console()
    steps, wrong = earlier(name, given.rows) if given.add else {}, []
    for files in given.files:
        found = run(given, given.workload, Sizes(files=files, rows=given.rows))
        terminal.print(shown(found))
        steps[files] = {"commit": before["commit"], **found.encode()}
        wrong += [f"{files} files: {line}" for line in disagreements(found)]
        # Kept after each size, so that a long run that is stopped leaves what it has.
        path = keep(name, {"workload": given.workload, "steps": [step for _, step in sorted(steps.items())]}, before)
    terminal.print(f"{'all rows agree' if not wrong else 'OTHER ROWS: ' + ', '.join(wrong)}; written to {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
