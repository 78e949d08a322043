"""Spark Connect's server, from the Spark that pip installed."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from needlefish.testing.clusters.processes import BRIEF_JAVA, announced, environment_of, running
from needlefish.testing.clusters.standalone import SparkCluster

# As the guide has it.
START = (
    "PYTHONPATH={package} $SPARK_HOME/sbin/start-connect-server.sh --master {master} "
    "--files {package} --conf spark.executorEnv.PYTHONPATH=needlefish.zip"
)
_STARTED = r"Spark Connect server started at: \S*?:(\d+)\s"
_SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": BRIEF_JAVA,
    "spark.executor.extraJavaOptions": BRIEF_JAVA,
    "spark.sql.shuffle.partitions": "8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A running server; thin clients connect to `address`."""

    address: str


@contextmanager
def connect_server(cluster: SparkCluster, package: Path, settings: Mapping[str, str] | None = None) -> Iterator[ConnectServer]:
    """Starts a server whose executors are the cluster's. It has this package as a zip, and hands it to
    executors, for streams alone: all else has what the clients ship."""
    environment = environment_of(
        cluster.folder,
        PYSPARK_PYTHON=cluster.python,
        PYSPARK_DRIVER_PYTHON=cluster.python,
        SPARK_LOG_DIR=str(cluster.folder / "logs"),
        SPARK_PID_DIR=str(cluster.folder),
        # The script would otherwise leave the server to itself.
        SPARK_NO_DAEMONIZE="1",
    )
    chosen = [part for name, value in (_SETTINGS | dict(settings or {})).items() for part in ("--conf", f"{name}={value}")]
    start = START.format(package=shlex.quote(str(package)), master=shlex.quote(cluster.master))
    command = ["/bin/sh", "-c", f"{start} {shlex.join(chosen)}"]
    log = cluster.folder / "connect.log"
    with running(command, environment, log) as process:
        yield ConnectServer(address=f"sc://127.0.0.1:{announced(process, log, _STARTED)}")
