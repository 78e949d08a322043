"""Every snippet of the guides to changes and to writes runs, one after the other."""

import re
from datetime import UTC, datetime
from pathlib import Path
from types import CodeType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import needlefish as nf
from needlefish.spark.source.register import register_source

# Spark gives the process that it starts for a stream ten seconds to answer, which a busy machine may need to start Python.
ATTEMPTS = 8
GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def run_snippets(guide: str, names: dict[str, Any]) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (GUIDES / guide).read_text(), re.DOTALL)
    assert len(snippets) >= 2
    for snippet in snippets:
        run_snippet(compile(snippet, guide, "exec"), names)


def run_snippet(code: CodeType, names: dict[str, Any]) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return exec(code, names)
        except PySparkException as error:
            if "failed to connect back" not in str(error) or attempt == ATTEMPTS:
                raise


def test_the_guides(spark: SparkSession, tmp_path: Path) -> None:
    register_source(spark)
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    df = spark.range(20).select("id", sf.lit(moment).alias("ts"), sf.lit("x").alias("v"))
    names: dict[str, Any] = {"spark": spark, "df": df, "uri": str(tmp_path / "table"), "copy": str(tmp_path / "copy")}
    names |= {"checkpoint": str(tmp_path / "first checkpoint"), "stream": _stream(spark, df, tmp_path)}
    run_snippets("spark-writes.md", names)
    table = nf.Table.open(names["uri"])
    assert table.scan().count() == 20
    assert nf.Table.open(names["copy"]).scan().count() == 20
    first = table.version
    table.upsert(df.where("id < 5").withColumn("v", sf.lit("y")))
    last = table.version
    names |= {
        "table": table,
        "first": first,
        "last": last,
        "checkpoint": str(tmp_path / "second checkpoint"),
        "out": str(tmp_path / "out"),
    }
    run_snippets("changes.md", names)
    assert names["changes"].count() == 5
    assert spark.read.parquet(names["out"]).count() == 5


def _stream(spark: SparkSession, df: Any, tmp_path: Path) -> Any:
    df.write.parquet(str(tmp_path / "incoming"))
    return spark.readStream.schema(df.schema).parquet(str(tmp_path / "incoming"))
