"""What processes note: one JSON record to a line, flushed at once, so that a death loses the last line at most."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Notes:
    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def add(self, **record: Any) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_notes(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open() as file:
            yield from (json.loads(line) for line in file if line.endswith("\n"))
