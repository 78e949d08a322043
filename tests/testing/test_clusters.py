"""Processes of a cluster never outlive whoever started them, and say why when they do not start."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from needlefish.errors import JobFailedError
from needlefish.testing.clusters.processes import announced, running
from needlefish.testing.clusters.python import bare_python

# A child in the background, as a worker has executors.
FAMILY = ["/bin/sh", "-c", "sleep 1000 & echo child $! ready; wait"]
CHILD = r"child (\d+) ready"
PARENT = """
import sys, time
from pathlib import Path
from needlefish.testing.clusters.processes import announced, running

log = Path(sys.argv[1])
with running(["/bin/sh", "-c", "sleep 1000 & echo child $! ready; wait"], {"PATH": sys.argv[2]}, log) as process:
    print(announced(process, log, r"child (\\d+) ready"), flush=True)
    time.sleep(1000)
"""
_PATIENCE_SECONDS = 60


def is_alive(pid: int) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout.strip()
    return bool(state) and not state.startswith("Z")


def ends(pid: int) -> bool:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_alive(pid)


def test_a_process_and_its_children_end_with_the_body(tmp_path: Path) -> None:
    found: list[int] = []
    with pytest.raises(ZeroDivisionError):
        fail_beside_a_family(tmp_path / "log", found)
    assert ends(found[0])


def fail_beside_a_family(log: Path, found: list[int]) -> None:
    with running(FAMILY, dict(os.environ), log) as process:
        found.append(int(announced(process, log, CHILD)))
        assert is_alive(found[0])
        raise ZeroDivisionError


def test_they_end_when_whoever_started_them_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log"), os.environ["PATH"]]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.send_signal(signal.SIGKILL)
    assert ends(child)


def test_a_process_that_does_not_start_says_why(tmp_path: Path) -> None:
    log = tmp_path / "log"
    failing = running(["/bin/sh", "-c", "echo bad luck; exit 3"], dict(os.environ), log)
    with failing as process, pytest.raises(JobFailedError, match="bad luck"):
        announced(process, log, CHILD)


def test_the_python_of_executors_leaves_us_out(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    (ours / "needlefish").mkdir(parents=True)
    (ours / "needlefish" / "__init__.py").write_text("")
    python = bare_python(tmp_path / "python", [str(ours), *sys.path])
    asked = [python, "-c", "import pyarrow; print('dependencies'); import needlefish"]
    ended = subprocess.run(asked, env={}, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.stdout == "dependencies\n"
    assert "No module named 'needlefish'" in ended.stderr
