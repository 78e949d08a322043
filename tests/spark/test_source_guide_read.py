"""Every snippet of the guide to reading runs, one after the other."""

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.store import open_store
from needlefish.testing.tables import append_rows, build_table

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark-source.md"


def test_the_guide(spark: SparkSession, uri: str) -> None:
    store = open_store(StoreConfig(uri=uri))
    rows = [{"request_id": f"r{n}", "day": f"2026-11-0{1 + n % 3}", "status": (200, 404, 500)[n % 3]} for n in range(30)]
    schema = "request_id string, day string, status int32"
    state = build_table(store, schema, "request_id", rows, partition_by=["day"], indexes=None)
    append_rows(store, state, [{"request_id": "late", "day": "2026-11-01", "status": 503}])
    names: dict[str, Any] = {"spark": spark, "uri": uri, "request_id": "r17", "version": state.version}
    try:
        for snippet in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
            exec(compile(snippet, GUIDE.name, "exec"), names)
        assert names["before"].count() == 30
        assert names["requests"].count() == 31
        assert spark.sql("SELECT count(*) FROM failed").collect()[0][0] == 11
        assert spark.sql("SELECT count(*) FROM yesterday").collect()[0][0] == 30
    finally:
        for statement in ("DROP VIEW IF EXISTS failed", "DROP VIEW IF EXISTS yesterday", "DROP TABLE IF EXISTS requests"):
            spark.sql(statement)
    assert nf.Table.open(uri).scan().count() == 31
