"""A few kills in the suite; more are in benchmarks/results/kill_compaction.json."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("kill_compaction.py")
KILLS = 2 if os.environ.get("NEEDLEFISH_LONG") else 1


def test_a_compaction_killed_at_any_moment_is_cleaned_away_and_done_again() -> None:
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", str(KILLS), "--seed", "7"], capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["kills"] == KILLS
