"""The zip that executors get: all of the package, the same bytes each time, and enough to import."""

import subprocess
import sys
import zipfile
from pathlib import Path

import needlefish as nf

ROOT = Path(__file__).parents[2] / "src"
SCRIPT = "import sys; sys.path.insert(0, sys.argv[1]); import needlefish, needlefish.spark.append; print(needlefish.__file__)"


def test_all_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(nf.pack(tmp_path / "a.zip")).namelist())
    code = {
        path.relative_to(ROOT).as_posix() for package in ("needlefish", "pyspark_needlefish") for path in (ROOT / package).rglob("*.py")
    }
    assert code
    assert code <= names
    assert not [name for name in names if "__pycache__" in name or not name.startswith(("needlefish/", "pyspark_needlefish/"))]


def test_the_same_code_has_the_same_bytes(tmp_path: Path) -> None:
    assert nf.pack(tmp_path / "a.zip").read_bytes() == nf.pack(str(tmp_path / "b.zip")).read_bytes()


def test_it_is_enough_to_import(tmp_path: Path) -> None:
    path = nf.pack(tmp_path / "a.zip")
    said = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"{path}/needlefish/__init__.py"
