"""The snippets of docs/guides/spark-cluster.md, on what each of them is about. Run by test_everywhere.py."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from needlefish.testing.s3 import S3Server

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark-cluster.md"
BEGINS = {"cluster": "A cluster, from a session", "connect": "Spark Connect"}


def snippets(section: str) -> list[str]:
    """The Python of one section, apart from files that are to be saved."""
    text = GUIDE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [found for found in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if not found.startswith("# ")]


def test_the_guide_is_right(spark: SparkSession, kind: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, more = snippets(BEGINS[kind]), [*snippets("Object stores"), *snippets("Sizes")]
    assert len(begin) == 1
    assert len(more) == 3
    text = "\n".join(begin + more)
    text = re.sub(r"spark://master:7077|sc://server:15002", os.environ["SUITE_MASTER"], text)
    text = text.replace('"lake/', f'"{tmp_path}/').replace("http://minio:9000", s3.endpoint)
    text = text.replace("s3://bucket/", f"s3://{s3.bucket}/guide-{kind}-")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(text, str(GUIDE), "exec"), names)
    assert names["spark"] is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "800"
