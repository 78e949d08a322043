"""docs/guides/spark.md, run from top to bottom as it is printed."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"


def test_every_snippet_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snippets = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(snippets) == GUIDE.read_text().count("```") // 2 > 3
    # Spark resolves relative paths by the folder that its JVM was started in.
    text = "\n".join(snippets).replace('"lake/', f'"{tmp_path}/lake/')
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(text, str(GUIDE), "exec"), names)
    # Not always the same object: Spark makes another for the same session after a stream has run.
    assert names["spark"].sparkContext is spark.sparkContext
