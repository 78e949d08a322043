"""`needlefish create`, `describe` and `history`: what is made and what is said of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from needlefish.config import StoreConfig
from needlefish.model.log import Batch
from needlefish.runtime import SYSTEM
from needlefish.store import open_store
from needlefish.testing.s3 import S3Server
from needlefish.testing.tables import build_table, skip_rows
from needlefish.timeline import Start, read_newest, working

Run = Callable[..., Any]


def test_create_takes_all_there_is_to_say_and_describe_repeats_it(cli: Run, uri: str) -> None:
    made = cli(
        "create", uri, "--schema", "id string, ts timestamp, user int64 not null", "--key", "user,id",
        "--partition-by", "day(ts)", "--partition-by", "bucket(user, 4)",
        "--property", "granule_rows=64", "--property", "granule_bloom_probability=0.5", "--property", "compression=lz4", "--json",
    ).json  # fmt: skip
    assert made == cli("describe", uri, "--json").json
    assert (made["version"], made["rows"], made["key"]) == (0, 0, ["user", "id"])
    assert made["partition_by"] == ["day(ts)", "bucket(user, 4)"]
    assert [(c["name"], c["type"], c["nullable"]) for c in made["columns"]] == [
        ("id", "string", False),
        ("ts", "timestamp", True),
        ("user", "int64", False),
    ]
    assert {name: made["properties"][name] for name in ("granule_rows", "granule_bloom_probability", "compression")} == {
        "granule_rows": 64,
        "granule_bloom_probability": 0.5,
        "compression": "lz4",
    }


def test_create_like_a_parquet_file(cli: Run, uri: str, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("tags", pa.list_(pa.string())), ("at", pa.timestamp("ms"))])
    pq.write_table(schema.empty_table(), tmp_path / "some.parquet")
    columns = cli("create", uri, "--like", str(tmp_path / "some.parquet"), "-k", "id", "--json").json["columns"]
    assert [(c["name"], c["type"]) for c in columns] == [("id", "int64"), ("tags", "list<string>"), ("at", "timestamp_ntz")]


def test_create_shows_the_table(cli: Run, uri: str) -> None:
    out = cli("create", uri, "--schema", "id string", "--key", "id").out
    assert uri in out
    assert "0 rows in 0 files, 0 B" in out


def test_describe_shows_size_key_and_columns(cli: Run, table: str) -> None:
    lines = cli("describe", table).out.splitlines()
    assert any(" ".join(line.split()).startswith("size 90 rows in 9 files, ") for line in lines)
    assert ["id", "string", "no", "key"] in [line.split() for line in lines]
    assert ["price", "decimal(10,2)", "yes"] in [line.split() for line in lines]


def test_describe_goes_back_in_time(cli: Run, table: str) -> None:
    assert cli("describe", table, "--version", "1", "--json").json["rows"] == 60
    assert cli("describe", table, "--version", "0", "--json").json["rows"] == 0


def test_history_is_newest_first(cli: Run, table: str) -> None:
    entries = cli("history", table, "--json").json
    assert [(entry["version"], entry["action"], entry["rows"]) for entry in entries] == [
        (2, "append", 30),
        (1, "append", 60),
        (0, "create", 0),
    ]


def test_history_on_a_terminal_says_what_it_leaves_out(cli: Run, table: str, terminal: Run) -> None:
    with terminal(120):
        short, full = cli("history", table, "--limit", "1").out, cli("history", table).out
    assert "showing the newest 1 version; --limit 0 shows all" in short
    assert "showing" not in full
    assert [line.split()[0] for line in full.splitlines()[1:4]] == ["2", "1", "0"]


def test_history_shows_steps_when_asked(cli: Run, table: str) -> None:
    store = open_store(StoreConfig(uri=table))
    with working(store, read_newest(store), Start(action="append"), SYSTEM) as work:
        pass
    assert [entry["action"] for entry in cli("history", table, "--json").json] == ["append", "append", "create"]
    steps = cli("history", table, "--steps", "--json").json
    assert [(entry["action"], entry["instant"]) for entry in steps[:3]] == [
        ("rollback", work.instant),
        ("claim", work.instant),
        ("append", None),
    ]
    assert len(steps) == 5
    assert cli("history", table, "--steps").out.count(work.instant) == 2
    assert "instant" not in cli("history", table).out


def test_a_table_on_s3_through_options(cli: Run, s3: S3Server) -> None:
    uri = f"s3://{s3.bucket}/cli"
    options = [argument for name, value in s3.options.items() for argument in ("--option", f"{name}={value}")]
    cli("create", uri, "--schema", "id string", "--key", "id", *options)
    assert cli("describe", uri, "--json", *options).json["uri"] == uri


def test_bloom_columns_are_declared_and_described(cli: Run, attempt: Run, uri: str) -> None:
    made = cli("create", uri, "--schema", "id string, user bigint, host string", "--key", "id", "--bloom", "user,host", "--json").json
    assert made["bloom_columns"] == ["user", "host"]
    assert cli("describe", uri).out.count("Bloom filter") == 2
    refused = attempt("create", uri + "-b", "--schema", "id string, ok boolean", "--key", "id", "--bloom", "ok")
    assert refused.code == 2
    assert "bloom_columns names column 'ok' of type boolean" in refused.err


def test_hidden_rows_lineage_and_batches_are_shown(cli: Run, uri: str) -> None:
    store = open_store(StoreConfig(uri=uri))
    state = build_table(store, "id int64, s string", "id", [{"id": number, "s": "a"} for number in range(10)])
    assert "hidden" not in cli("history", uri).out, "a table that was only appended to has no such columns"
    rows = [{"id": 1, "s": "b"}]
    skip_rows(store, state, lambda row: row["id"] in (1, 2), rows=rows, batch=Batch(application="etl", number=17))
    newest = cli("history", uri, "--json").json[0]
    assert (newest["action"], newest["rows"], newest["skipped"], newest["prev_max"]) == ("upsert", 1, 2, 1)
    assert newest["batch"] == {"application": "etl", "number": 17}
    title, first, *_ = cli("history", uri).out.splitlines()
    assert title.split() == [
        "version",
        "committed",
        "(UTC)",
        "action",
        "rows",
        "files",
        "bytes",
        "hidden",
        "compared",
        "with",
        "batch",
        "writer",
    ]
    assert " 2  " in first
    assert "etl 17" in first
    described = cli("describe", uri, "--json").json
    assert (described["rows"], described["skipped"], described["batches"]) == (9, 2, {"etl": 17})
    words = cli("describe", uri).out
    assert "9 rows and 2 hidden in 2 files" in words
    assert "etl: 17" in words
    receipt = cli("scan", uri, "--json", "--receipt").json_lines[-1]["receipt"]
    assert (receipt["rows_returned"], receipt["rows_skipped"], receipt["files_pruned_by_skips"]) == (9, 2, 0)
    found = cli("find", uri, "id=2", "--json", "--receipt").json_lines[-1]["receipt"]
    assert (found["rows_returned"], found["rows_skipped"]) == (0, 1)
