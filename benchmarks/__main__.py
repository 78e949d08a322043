"""All benchmarks, each in a process of its own: what one leaves in memory must not be another's peak."""

import subprocess
import sys

NAMES = ("bloom", "pipeline", "tag")


def main() -> int:
    return max(subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode for name in NAMES)


if __name__ == "__main__":
    raise SystemExit(main())
