"""A few kills in the suite; fifty are in benchmarks/results/kill_append.json."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("kill_append.py")


def test_an_append_killed_at_any_moment_leaves_the_state_before_or_after() -> None:
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "2", "--seed", "7"], capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["kills"] == 2
