"""A real erasure on Spark, on a local disk: no file below the table has the secret any more, and every other row is there."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.services.erase import EraseOptions
from needlefish.spark.erase import erase_keys
from needlefish.store import RetriedStore, open_store
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.tables import build_table, find_table, scan_table

SECRET = "zz-secret-7431"


def row(number: object, mail: str, host: str) -> dict[str, Any]:
    return {"id": str(number), "mail": mail, "host": host}


@pytest.fixture
def store(uri: str) -> RetriedStore:
    return open_store(StoreConfig(uri=uri))


def holding(uri: str) -> list[Path]:
    return [path for path in Path(uri).rglob("*") if path.is_file() and b"secret" in path.read_bytes()]


def test_an_erasure_on_spark(spark: SparkSession, store: RetriedStore, uri: str) -> None:
    rows = [row(number, f"m{number}", "ab"[number % 2]) for number in range(200)]
    state = build_table(
        store,
        "id string, mail string, host string",
        "id",
        [*rows, row(SECRET, "zz-secret@a", "a")],
        partition_by="host",
        indexes=[nf.PointIndex("mail")],
        properties={"compression": "none", "granule_rows": 50},
    )
    state, _ = upsert_table(store, state, [row(SECRET, "zz-secret@b", "a"), row(3, "changed", "b")])
    assert holding(uri)
    frame = spark.createDataFrame([(SECRET, "a", 1), ("nobody", "b", 2)], "id string, host string, why int")
    state, report = erase_keys(frame, state, store, EraseOptions(expire=True, grace_seconds=0))
    assert report.complete, str(report)
    assert (report.keys, report.deleted, report.files) == (2, 1, 2)
    assert holding(uri) == []
    wanted = {str(found["id"]): found for found in rows} | {"3": row(3, "changed", "b")}
    assert {found["id"]: found for found in scan_table(store, state)[0].to_pylist()} == wanted
    assert find_table(store, state, mail=["m7"])[0].to_pylist() == [row(7, "m7", "b")]
    assert not verify_table(Snapshot(store=store, state=state)).problems


def test_a_frame_without_the_keys_is_refused(spark: SparkSession, store: RetriedStore) -> None:
    state = build_table(store, "id string, host string", "id", [{"id": "1", "host": "a"}], partition_by="host")
    frame = spark.createDataFrame([("1",)], "id string")
    with pytest.raises(InvalidError, match="host"):
        erase_keys(frame, state, store, EraseOptions())
    assert scan_table(store, state)[0].num_rows == 1
