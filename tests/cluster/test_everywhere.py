"""The suite on a standalone cluster and over Spark Connect, each in a process of its own; and what goes wrong on clusters.

The local session runs the same functions in test_suite.py and test_source_suite.py themselves. `make spark` runs all of it
everywhere; `make test`, which has the rest to run too, picks some.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import needlefish as nf
from needlefish.testing.clusters import SparkCluster, connect_server, spark_cluster
from needlefish.testing.clusters.connect import START
from needlefish.testing.clusters.processes import environment_of, spark_home

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "guides" / "spark-cluster.md"
SUITE = ("test_suite.py", "test_source_suite.py", "faults.py", "guide.py")
ALL = os.environ.get("SUITE") == "all"
# One of each sort: what was shipped, an upsert, a compaction, an executor that dies, the data source.
PICKED = ("shipped", "replaces", "compaction", "killed", "appended")
# A copy of a task as soon as any other task of its stage has ended.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.01",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.efficiency.enabled": "false",
}
_PATIENCE_SECONDS = 1_800

whole = pytest.mark.skipif(not ALL, reason="takes a minute; make spark runs it")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with spark_cluster() as running:
        yield running


@pytest.fixture(scope="module")
def package(cluster: SparkCluster) -> Path:
    return nf.pack(cluster.folder / "needlefish.zip")


def run(
    tests: Sequence[str],
    cluster: SparkCluster,
    master: str,
    settings: Mapping[str, str] | None = None,
    picked: str = "",
    path: Path | None = None,
) -> None:
    """A driver process: it has this environment, its executors have the cluster's. `path` is what its own Python processes also have."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTEST"))}
    environment |= {"SUITE_MASTER": master, "SUITE_SETTINGS": json.dumps(settings or {}), "PYSPARK_PYTHON": cluster.python}
    environment |= {} if path is None else {"PYTHONPATH": str(path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--durations=8", "-k", picked, *(str(HERE / name) for name in tests)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert " passed" in ended.stdout
    assert "skipped" not in ended.stdout


def test_the_python_of_executors_does_not_have_us(cluster: SparkCluster) -> None:
    asked = [cluster.python, "-c", "import pyarrow, obstore, pyspark; print('dependencies'); import needlefish"]
    ended = subprocess.run(asked, env={}, capture_output=True, text=True, cwd=cluster.folder, check=False)
    assert ended.stdout == "dependencies\n"
    assert "No module named 'needlefish'" in ended.stderr


def test_the_suite_on_a_cluster(cluster: SparkCluster, package: Path) -> None:
    # Spark runs the driver's side of a stream in a process that has no files of the session: see the guide.
    run(SUITE, cluster, cluster.master, picked="" if ALL else " or ".join(PICKED), path=package)


def test_the_suite_over_connect(cluster: SparkCluster, package: Path) -> None:
    with connect_server(cluster, package) as server:
        run(SUITE, cluster, server.address, picked="" if ALL else " or ".join(PICKED))


def test_the_server_is_started_as_the_guide_has_it() -> None:
    assert START.format(package="needlefish.zip", master="spark://master:7077") in GUIDE.read_text()


@whole
def test_speculative_tasks_on_a_cluster(cluster: SparkCluster) -> None:
    run(["speculation.py"], cluster, cluster.master, SPECULATION)


@whole
def test_a_job_by_spark_submit_as_the_guide_has_it(cluster: SparkCluster, tmp_path: Path) -> None:
    """Neither executors nor the driver have the package but in the zip."""
    text = GUIDE.read_text()
    pack, submit = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0].splitlines()
    (tmp_path / "job.py").write_text(re.findall(r"```python\n(# job\.py\n.*?)```", text, re.DOTALL)[0])
    subprocess.run(pack.replace("python", sys.executable, 1), shell=True, cwd=tmp_path, check=True)
    submit = submit.replace("spark-submit", str(spark_home() / "bin" / "spark-submit"), 1).replace("spark://master:7077", cluster.master)
    environment = environment_of(cluster.folder, PYSPARK_PYTHON=cluster.python, PYSPARK_DRIVER_PYTHON=cluster.python)
    submit = submit.replace("lake/nightly", str(tmp_path / "nightly"))
    ended = subprocess.run(submit, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout == f"500 rows on {cluster.master}\n"
    assert nf.Table.open(str(tmp_path / "nightly")).scan().count() == 500
