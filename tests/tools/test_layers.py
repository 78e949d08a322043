"""`make check` fails when a room imports one it must not know."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKER = ROOT / "tools" / "layers.py"


def run(package: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, str(CHECKER), str(package)], capture_output=True, text=True, check=False)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    copied = tmp_path / "needlefish"
    shutil.copytree(ROOT / "src" / "needlefish", copied)
    return copied


def test_the_package_as_it_is_passes(package: Path) -> None:
    result = run(package)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("store/base.py", "from needlefish.format.run import KEY", "store must not know format"),
        ("format/run.py", "from needlefish.filters import hash", "format must not know filters"),
        ("index/newest.py", "import needlefish.timeline", "index must not know timeline"),
        ("table/create.py", "from needlefish.spark.session import spark_session", "table must not know spark"),
        ("model/schema.py", "from needlefish.runtime import SYSTEM", "model must not know runtime"),
        ("api/table.py", "from needlefish.testing.fake_clock import FakeClock", "api must not know testing"),
        ("table/create.py", "import pyspark", "pyspark is imported outside spark/"),
        ("api/session.py", "def late():\n    import pyspark", "pyspark is imported outside spark/"),
        ("cli/scan.py", "from needlefish.spark.session import spark_session", "is imported at the top, which loads pyspark"),
        ("timeline/log.py", "import time", "time belongs to runtime.py"),
        ("timeline/log.py", "from uuid import uuid4", "uuid belongs to runtime.py"),
        ("spark/append.py", "import py4j.protocol", "py4j.protocol does not exist over Spark Connect"),
        ("spark/append.py", "from pyspark.core.rdd import RDD", "pyspark.core.rdd does not exist over Spark Connect"),
        ("spark/append.py", "from pyspark import SparkContext", "SparkContext does not exist over Spark Connect"),
        ("spark/append.py", "def late(frame):\n    return frame.rdd", "rdd does not exist over Spark Connect"),
        ("spark/append.py", "def late(spark):\n    return spark._jvm", "_jvm does not exist over Spark Connect"),
        ("spark/session.py", "def late(spark):\n    return spark.sparkContext", "sparkContext does not exist over Spark Connect"),
        ("spark/progress.py", "def late(spark):\n    return spark._jsc", "_jsc does not exist over Spark Connect"),
        ("table/create.py", "from . import commit", "relative import"),
        ("table/create.py", "def late():\n    import json", "import of json hides inside a function"),
        ("table/create.py", "def late():\n    from needlefish.table import commit", "hides inside a function"),
    ],
)
def test_a_forbidden_import_fails(package: Path, file: str, line: str, complaint: str) -> None:
    path = package / file
    path.write_text(path.read_text() + f"\n\n{line}\n")
    result = run(package)
    assert result.returncode == 1
    assert complaint in result.stdout
    assert file in result.stdout


def test_a_room_nobody_declared_fails(package: Path) -> None:
    (package / "helpers").mkdir()
    (package / "helpers" / "__init__.py").write_text("")
    result = run(package)
    assert result.returncode == 1
    assert "helpers is no room" in result.stdout


def test_make_check_runs_the_checker() -> None:
    recipe = subprocess.run(["make", "--dry-run", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "tools/layers.py" in recipe
    assert "tests/spec" in recipe
