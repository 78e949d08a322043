"""Processes of Spark's own launch script: started with a clean environment, ready when their log says so, never left behind."""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from needlefish.errors import JobFailedError, UnsupportedError

_PATIENCE_SECONDS = 120
_PAUSE_SECONDS = 0.1
_SHOWN_LINES = 40

# The shell leads a group in which Spark's processes and their children live. It ends the group when its standard input
# does, which happens however the process at the other end ends; and when what it started ends by itself.
_WITH_US = '("$@" </dev/null; kill -9 0) & read -r nothing; kill -9 0'

# These processes live for a minute or two: compiling their code well would cost more than it saves.
BRIEF_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# What a person has set for their own Spark or Python must not leak into processes that stand for other machines.
_OURS = ("SPARK", "PYSPARK", "PYTHON", "JAVA_HOME", "PYTEST", "NEEDLEFISH")


def spark_home() -> Path:
    """The Spark that pip installed."""
    found = find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise UnsupportedError("Spark is not installed; run: pip install 'needlefish[spark]'")
    return Path(found.submodule_search_locations[0])


def environment_of(folder: Path, **settings: str) -> dict[str, str]:
    """For processes on loopback that keep what they write in `folder`."""
    from needlefish.spark.java import find_java

    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    java = find_java().home
    ours = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    return kept | ours | ({} if java is None else {"JAVA_HOME": java}) | settings


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process and its children, until the body ends."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _WITH_US, "sh", *command],
            env=environment,
            cwd=log.parent,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        # The end of its standard input, and then of its group.
        process.communicate()


def announced(process: "subprocess.Popen[bytes]", log: Path, pattern: str) -> str:
    """What the first group of `pattern` matches, as soon as the process has written it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        if ended:
            break
        time.sleep(_PAUSE_SECONDS)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
    raise JobFailedError(f"a process of Spark did not start; {log.name} ends in:\n{tail}")
