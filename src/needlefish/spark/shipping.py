"""This package as a zip, which Spark hands to its executors: they need our code, and find it nowhere else.

What we depend on holds compiled code and is installed there, or comes with a packed environment (docs/guides/spark-cluster.md).
"""

import atexit
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

# The second is how Spark finds our data source by itself.
_PACKAGES = ("needlefish", "pyspark_needlefish")
# A zip of the same code has the same bytes, so that shipping it twice is shipping it once.
_THEN = (1980, 1, 1, 0, 0, 0)
_NAME = "needlefish.zip"


def pack(path: str | Path) -> Path:
    """Writes the zip, for `spark-submit --py-files`."""
    target = Path(path)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            if find_spec(package) is not None:
                for name, file in _files(files(package), package):
                    archive.writestr(zipfile.ZipInfo(name, _THEN), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def ship(spark: SparkSession) -> None:
    """Hands the zip to all executors of a session, those that start later included."""
    spark.addArtifacts(_packed(), pyfile=True)


@cache
def _packed() -> str:
    """The code as it was when it was first asked for: Spark refuses a file of the same name with other bytes."""
    folder = Path(tempfile.mkdtemp(prefix="needlefish-package-"))
    # Executors may ask for it as long as the session lives.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(pack(folder / _NAME))


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda found: found.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _files(entry, f"{name}/{entry.name}")
        else:
            yield f"{name}/{entry.name}", entry
