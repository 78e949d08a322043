"""One kill of a real streaming query in the suite; `kill_streaming.py` does as many as it is asked for."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("kill_streaming.py")


def test_a_query_that_was_killed_delivers_every_row_exactly_once() -> None:
    command = [sys.executable, str(SCRIPT), "--kills", "1", "--rest", "3", "--seed", "7"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["epochs"] == 4
