"""All benchmarks, each in a process of its own: what one leaves in memory must not be another's peak."""

import subprocess
import sys

# The report and the figures come last: they draw and tell what the others kept.
RUNS = (
    "bloom",
    "pipeline",
    "tag",
    "point_index",
    "skips",
    "find_parts",
    "compare --workload requests",
    "compare --workload events",
    "compare --workload orders",
    "upsert",
    "objectstore",
    "growth",
    "beside",
    "soak --on local",
    "soak --on s3",
    "report",
    "figures",
)


def main() -> int:
    return max(subprocess.run([sys.executable, "-m", *f"benchmarks.{run}".split()], check=False).returncode for run in RUNS)


if __name__ == "__main__":
    raise SystemExit(main())
