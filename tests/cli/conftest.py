"""Running command lines in this process, and a table for them to read."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from needlefish.cli.main import run
from needlefish.config import StoreConfig
from needlefish.store import open_store
from needlefish.testing.tables import append_rows, build_table

SCHEMA = "id string, ts timestamp, n int64, price decimal(10,2), note string"
# Colours and cursor movements.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
START = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def attempt(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs a command line that may fail."""

    def run_line(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = run(arguments)
        out, err = capsys.readouterr()
        return Outcome(code=code, out=_ESCAPES.sub("", out), err=_ESCAPES.sub("", err))

    return run_line


@pytest.fixture
def cli(attempt: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Runs a command line that must succeed."""

    def run_line(*arguments: str) -> Outcome:
        outcome = attempt(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome

    return run_line


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    """Makes stdout a terminal of some width."""

    @contextmanager
    def of_width(columns: int) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(sys.stdout, "isatty", lambda: True)
            patch.setenv("COLUMNS", str(columns))
            patch.setenv("TERM", "xterm")
            yield

    return of_width


@pytest.fixture
def table(uri: str) -> str:
    """60 rows over three days as version 1, 30 more of the third day as version 2; small granules and chunksets."""
    store = open_store(StoreConfig(uri=uri))
    properties = {"granule_rows": 5, "chunkset_rows": 10}
    state = build_table(store, SCHEMA, "id", map(row, range(60)), partition_by=["day(ts)"], properties=properties)
    append_rows(store, state, (row(number) | {"ts": START + timedelta(days=2)} for number in range(60, 90)))
    return uri


def row(number: int) -> dict[str, object]:
    return {
        "id": f"k{number:03}",
        "ts": START + timedelta(days=number // 20),
        "n": number,
        "price": Decimal(f"{number}.50"),
        "note": None if number % 2 else 'a "b", c',
    }
