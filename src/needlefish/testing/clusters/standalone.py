"""Spark's standalone master and its workers."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from needlefish.testing.clusters.processes import BRIEF_JAVA, announced, environment_of, running, spark_home
from needlefish.testing.clusters.python import bare_python

_MASTER = r"Starting Spark master at (spark://\S+)"
_REGISTERED = r"(Successfully registered with master)"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_FREE_PORTS = ("--port", "0", "--webui-port", "0")
# Two names of one machine: Spark takes them for two, and only then runs a speculative copy of a task beside it.
_HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCluster:
    """A running master with its workers. `python` is what executors run: it has our dependencies and not us."""

    master: str
    folder: Path
    python: str


def executor_pids(application: str) -> list[int]:
    """The processes of an application's executors."""
    listed = subprocess.run(["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    lines = (line.split(None, 1) for line in listed.splitlines() if _EXECUTOR in line and application in line)
    # The shell that waits for a process has its whole command line too; Java's begins with Java.
    return [int(number) for number, command in lines if command.split()[0].endswith("java")]


@contextmanager
def spark_cluster(workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[SparkCluster]:
    """Starts a master and its workers on free ports; all of them are killed at the end, with every executor."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="needlefish-cluster-", ignore_cleanup_errors=True)))
        (folder / "conf").mkdir()
        environment = environment_of(
            folder, SPARK_WORKER_DIR=str(folder / "work"), SPARK_DAEMON_MEMORY="256m", SPARK_DAEMON_JAVA_OPTS=BRIEF_JAVA
        )
        script = str(spark_home() / "bin" / "spark-class")

        log = folder / "master.log"
        command = [script, "org.apache.spark.deploy.master.Master", "--host", _HOSTS[1], *_FREE_PORTS]
        process = stack.enter_context(running(command, environment, log))
        master = announced(process, log, _MASTER)

        command = [script, "org.apache.spark.deploy.worker.Worker", *_FREE_PORTS, "--cores", str(cores), "--memory", memory, master]
        logs = [folder / f"worker-{number}.log" for number in range(workers)]
        hosts = [_HOSTS[number % len(_HOSTS)] for number in range(workers)]
        started = [
            stack.enter_context(running([*command, "--host", host], environment, log)) for host, log in zip(hosts, logs, strict=True)
        ]
        for process, log in zip(started, logs, strict=True):
            announced(process, log, _REGISTERED)
        yield SparkCluster(master=master, folder=folder, python=bare_python(folder / "python", sys.path))
