"""Result files: every figure together with the machine, the versions and the commit it was measured on."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("pyarrow", "pyspark", "numpy", "numba", "obstore", "duckdb", "xxhash")


def machine() -> dict[str, object]:
    """Where and what was measured."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: version(name) for name in _PACKAGES},
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed_since_commit": bool(_git("status", "--porcelain", "--", "src", "benchmarks/*.py")),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=RESULTS, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def console() -> Console:
    """The terminal's width, or enough for the widest table where there is none."""
    found = Console()
    return found if found.is_terminal else Console(width=150)


def keep(name: str, result: Mapping[str, object], before: Mapping[str, object]) -> Path:
    """Writes benchmarks/results/NAME.json; `before` is `machine()` as it was when measuring began."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": before, **result}, indent=1) + "\n")
    return path
