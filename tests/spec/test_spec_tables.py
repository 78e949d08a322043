"""The tables in `spec/` say what the records in code say, and the other way round."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import spec_tables

TABLES = spec_tables.tables_in_spec()


def test_every_record_that_reaches_storage_has_a_table() -> None:
    assert sorted(TABLES) == sorted(spec_tables.RECORDS)


@pytest.mark.parametrize("name", sorted(spec_tables.RECORDS))
def test_table_and_record_agree(name: str) -> None:
    assert TABLES[name] == spec_tables.rows_in_code(spec_tables.RECORDS[name])


def test_a_table_that_lies_is_seen(tmp_path: Path) -> None:
    text = spec_tables.show(spec_tables.RECORDS["Totals"]).replace("| `files` | int |", "| `files` | string |")
    (tmp_path / "log.md").write_text(f"### Record `Totals`\n\n{text}\n")
    assert spec_tables.tables_in_spec(tmp_path)["Totals"] != spec_tables.rows_in_code(spec_tables.RECORDS["Totals"])
