"""Result files: every figure together with the machine, the versions and the commit it was measured on."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("pyarrow", "pyspark", "numpy", "numba", "obstore", "xxhash")
# What we are measured beside; a bench without one of them says so.
_PEERS = ("duckdb", "datafusion", "polars", "deltalake", "pyiceberg", "pylance")


def machine() -> dict[str, object]:
    """Where and what was measured."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in (*_PACKAGES, *_PEERS)},
        "commit": _git("rev-parse", "--short", "HEAD"),
        "changed_since_commit": bool(_git("status", "--porcelain", "--", ":/src", ":/benchmarks/*.py")),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=RESULTS, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def console() -> Console:
    """The terminal's width, or enough for the widest table where there is none."""
    found = Console()
    return found if found.is_terminal else Console(width=170)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A line on a terminal that says what is going on, with the time it has taken so far; nothing where there is none."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=text)


def keep(name: str, result: Mapping[str, object], before: Mapping[str, object]) -> Path:
    """Writes benchmarks/results/NAME.json; `before` is `machine()` as it was when measuring began."""
    path = RESULTS / f"{name}.json"
    # A peer's error may name a file of whoever measured.
    path.write_text(json.dumps({"machine": before, **result}, indent=1).replace(f"{Path.home()}/", "~/") + "\n")
    return path
