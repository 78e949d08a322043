"""The command `needlefish bloom`: what it prints, as a table and as JSON, and what it refuses."""

import base64
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from needlefish.cli.bloom import bloom
from needlefish.cli.bloom_keys import read_keys
from needlefish.cli.bloom_value import parse_value
from needlefish.errors import CorruptError, InvalidError, NotFoundError
from needlefish.format.bloom_schema import LeafColumn
from needlefish.store import open_store
from needlefish.testing.s3 import S3Server

GOLDEN = Path(__file__).parents[1] / "index" / "test_parquet_bloom_golden"
app = typer.Typer()
app.command()(bloom)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def run_json(*arguments: str) -> list[dict[str, Any]]:
    reports: list[dict[str, Any]] = json.loads(run(*arguments, "--json"))
    return reports


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "some file.parquet"
    options = {"id": {"ndv": 1000, "fpp": 0.01}, "name": {"ndv": 1000, "fpp": 0.01}}
    data = pa.table({"id": range(2000), "name": [f"n{n}" for n in range(2000)], "bare": range(2000)})
    pq.write_table(data, path, row_group_size=1000, bloom_filter_options=options)
    return str(path)


def test_json_is_an_object_per_row_group_and_column(file: str) -> None:
    reports = run_json(file)
    assert [(report["column"], report["row_group"]) for report in reports] == [("id", 0), ("id", 1), ("name", 0), ("name", 1)]
    for report in reports:
        assert report["rows"] == 1000
        assert report["bytes"] == report["blocks"] * 32 == 2048
        assert report["bits_share"] == pytest.approx(report["bits_set"] / (2048 * 8))
        assert report["estimated_distinct"] == pytest.approx(1000, rel=0.05)
        assert 0 < report["false_positive_rate"] < 0.01
        assert "may_contain" not in report


def test_a_probe_answers_per_row_group(file: str) -> None:
    assert [report["may_contain"] for report in run_json(file, "id", "--probe", "1500")] == [False, True]
    assert [report["may_contain"] for report in run_json(file, "name", "--probe", "n3")] == [True, False]
    assert [report["may_contain"] for report in run_json(file, "name", "--probe", "nowhere")] == [False, False]


def test_a_column_without_a_filter_may_contain_anything(file: str) -> None:
    reports = run_json(file, "bare", "--probe", "99999")
    assert [(report["bytes"], report["may_contain"]) for report in reports] == [(None, True), (None, True)]


def test_the_table_is_for_people(file: str) -> None:
    shown = run(file, "id", "--probe", "1500")
    for text in ("group", "id", "1,000", "2,048", "~", "%", "may hold 1500", "maybe", "no"):
        assert text in shown
    assert "no filter" in run(file, "bare")


def test_a_file_without_filters_says_so(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "f.parquet")
    assert "has no Bloom filter" in run(str(tmp_path / "f.parquet"))
    assert run_json(str(tmp_path / "f.parquet")) == []


def test_a_saturated_filter_tells_no_count(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"a": range(20_000)}), path, bloom_filter_options={"a": {"ndv": 10, "fpp": 0.5}})
    (report,) = run_json(str(path))
    assert (report["estimated_distinct"], report["bits_share"]) == (None, 1)
    assert "full" in run(str(path))


def test_columns_without_a_key_are_shown_as_locked(tmp_path: Path) -> None:
    sealed = str(GOLDEN / "per_column.parquet")
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"footer": base64.b64encode(b"footerkey0123456").decode()}))
    reports = {report["column"]: report for report in run_json(sealed, "--keys", str(path))}
    assert [(name, report["locked"]) for name, report in reports.items()] == [("id", True), ("name", True), ("open", False)]
    assert reports["open"]["bytes"] == 512
    assert "locked" in run(sealed, "--keys", str(path))
    assert [report["may_contain"] for report in run_json(sealed, "open", "--probe", "3", "--keys", str(path))] == [True]
    with pytest.raises(InvalidError, match="key that was not given"):
        run(sealed, "id", "--probe", "7", "--keys", str(path))
    with pytest.raises(InvalidError, match="the footer is encrypted"):
        run(sealed)


def test_files_on_an_object_store(s3: S3Server, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(s3.config("cli")).put("some file.parquet", Path(file).read_bytes())
    for name, value in s3.options.items():
        monkeypatch.setenv(name.upper() if name.startswith("aws") else f"AWS_{name.upper()}", value)
    reports = run_json(f"s3://{s3.bucket}/cli/some file.parquet", "id", "--probe", "1500")
    assert [report["may_contain"] for report in reports] == [False, True]


def test_wrong_arguments_are_named(file: str, tmp_path: Path) -> None:
    for arguments, kind, text in [
        ((file, "nope"), InvalidError, "'nope'"),
        ((file, "id", "--probe", "x"), InvalidError, "--probe 'x' is not a value of column 'id', which has type int64"),
        ((file, "--probe", "x"), InvalidError, "needs a COLUMN: columns with a filter are id, name"),
        ((str(tmp_path) + "/",), InvalidError, "names a folder"),
        ((str(tmp_path / "absent.parquet"),), NotFoundError, "absent.parquet"),
        ((__file__,), CorruptError, "not a Parquet file"),
        ((file, "--keys", str(tmp_path / "keys.json")), NotFoundError, "--keys"),
    ]:
        with pytest.raises(kind, match=text.replace("(", r"\(")):
            run(*arguments)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", pa.int32(), 7),
        ("-7", pa.int64(), -7),
        ("1.5", pa.float64(), 1.5),
        ("1.50", pa.decimal128(5, 2), Decimal("1.50")),
        ("true", pa.bool_(), True),
        ("0x00ff", pa.binary(), b"\x00\xff"),
        ("plain", pa.binary(), b"plain"),
        ("0x0102", pa.binary(2), b"\x01\x02"),
        ("2026-11-01", pa.date32(), date(2026, 11, 1)),
        ("10:30:00.5", pa.time64("us"), time(10, 30, 0, 500_000)),
        ("2026-11-01 10:00:00", pa.timestamp("us"), datetime(2026, 11, 1, 10)),  # noqa: DTZ001
        ("2026-11-01T10:00:00+02:00", pa.timestamp("us", tz="UTC"), datetime(2026, 11, 1, 8, tzinfo=UTC)),
        ("2026-11-01 10:00:00", pa.timestamp("us", tz="UTC"), datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01", pa.timestamp("ms", tz="UTC"), datetime(2026, 11, 1, tzinfo=UTC)),
        ("00000000-0000-0000-0000-000000000007", pa.uuid(), UUID(int=7).bytes),
    ],
)
def test_values_are_read_as_the_columns_type(text: str, kind: pa.DataType, value: object) -> None:
    parsed = parse_value(text, LeafColumn(path="c", physical=2, type_length=None, kind=kind))
    assert (parsed.as_py() if isinstance(parsed, pa.Scalar) else parsed) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", pa.int64()),
        ("1.5", pa.int64()),
        ("x", pa.decimal128(5, 2)),
        ("0xzz", pa.binary()),
        ("nope", pa.uuid()),
        ("2026-11-01T10:00:00Z", pa.timestamp("us")),
    ],
)
def test_texts_that_are_no_values_are_refused(text: str, kind: pa.DataType) -> None:
    with pytest.raises(InvalidError, match="--probe"):
        parse_value(text, LeafColumn(path="c", physical=2, type_length=None, kind=kind))


def test_keys_come_from_a_file_and_never_show(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    secret = base64.b64encode(b"k" * 16).decode()
    path.write_text(json.dumps({"footer": secret, "columns": {"a": secret}, "aad_prefix": base64.b64encode(b"p").decode()}))
    keys = read_keys(str(path))
    assert (keys.find(None, b""), keys.find("a", b""), keys.aad_prefix) == (b"k" * 16, b"k" * 16, b"p")
    for bad in ('{"footer": "k*k"}', '{"foot": ""}', "[]", "{"):
        path.write_text(bad)
        with pytest.raises(InvalidError, match="--keys") as refused:
            read_keys(str(path))
        assert "k*k" not in str(refused.value)
