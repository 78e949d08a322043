"""The parts of a find at their smallest: each is measured, and the parts are less than the whole."""

import json
from pathlib import Path

from benchmarks.find_parts import main


def test_every_part_is_measured(tmp_path: Path) -> None:
    assert main(["--files", "63", "--rows", "40", "--out", str(tmp_path / "parts")]) == 0
    found = json.loads((tmp_path / "parts.json").read_text())
    parts = found["microseconds"]
    assert set(parts) == {"find", "absent", "reads", "footer", "decode"}
    assert all(microseconds > 0 for microseconds in parts.values())
    assert found["bound"] == parts["reads"] + parts["footer"] + parts["decode"]
    assert found["machine"]["commit"]
