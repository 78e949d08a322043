"""Starting Spark quietly: what the JVM prints goes to a file that is shown only when the start fails."""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from needlefish.errors import JobFailedError
from needlefish.spark.java import find_java

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Batches of this many rows keep the Python side busy with work rather than with messages.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.python.filterPushdown.enabled": "true",
}
# One machine: adaptive execution joins small shuffle partitions, and 200 to start with are mostly overhead here.
_LOCAL_DEFAULTS = {
    "spark.sql.shuffle.partitions": "32",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
}
_SHOWN_LINES = 15
_CONNECT = "sc://"
# Set by spark-submit, which has chosen the master and started the JVM when our code begins.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def spark_session(master: str | None = None, app: str = "needlefish", config: Mapping[str, str] | None = None) -> SparkSession:
    """A Spark session: the active one if there is one, else as `master`, spark-submit, SPARK_REMOTE or SPARK_MASTER say, else a local one."""
    existing = _existing()
    if existing is not None:
        return existing
    builder = SparkSession.builder.appName(app)
    settings = _DEFAULTS | dict(config or {})
    if _SUBMITTED in os.environ and master is None:
        return _configured(builder, _unsaid(_DEFAULTS) | dict(config or {})).getOrCreate()
    remote = os.environ.get("SPARK_REMOTE")
    chosen = master or remote or os.environ.get("SPARK_MASTER") or "local[*]"
    # Spark takes SPARK_REMOTE=local too, for a server of its own.
    if chosen.startswith(_CONNECT) or chosen == remote:
        return _connected(chosen, settings)
    if chosen.startswith("local"):
        settings = _LOCAL_DEFAULTS | settings
    _prepare_environment()
    return _started(_configured(builder.master(chosen), settings))


def _existing() -> SparkSession | None:
    """Of this thread, or of whichever thread began one."""
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def _unsaid(defaults: Mapping[str, str]) -> dict[str, str]:
    """Those that spark-submit, or Spark's own files, said nothing about."""
    said = SparkConf()
    return {name: value for name, value in defaults.items() if not said.contains(name)}


def _connected(address: str, settings: Mapping[str, str]) -> SparkSession:
    """A thin client needs no Java. What belongs to the server as a whole is for whoever runs it to say."""
    ours = {name: value for name, value in settings.items() if name.startswith("spark.sql.")}
    return _configured(SparkSession.builder.remote(address), ours).getOrCreate()


def _configured(builder: "SparkSession.Builder", settings: Mapping[str, str]) -> "SparkSession.Builder":
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _prepare_environment() -> None:
    """Before the JVM starts: it inherits all of this."""
    java = find_java()
    if java.home is not None:
        os.environ["JAVA_HOME"] = java.home
    # Otherwise workers run whatever `python3` is first on PATH, which has none of our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _started(builder: "SparkSession.Builder") -> SparkSession:
    log = _log_file()
    try:
        with _output_to(log):
            return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
        raise JobFailedError(f"Spark did not start ({find_java().found}): {error}\n{tail}") from error


def _log_file() -> Path:
    """The JVM's own words, for this session; a test or a person can look there while it lives."""
    folder = Path(tempfile.mkdtemp(prefix="needlefish-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder / "spark.log"


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Points this process's standard error at `log` while the JVM starts: the JVM keeps it, we get ours back."""
    sys.stderr.flush()
    saved = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
