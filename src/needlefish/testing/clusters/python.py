"""A Python for executors that finds our dependencies and not us, so that nothing works there but what was shipped."""

import site
import venv
from collections.abc import Sequence
from pathlib import Path

_PACKAGE = "needlefish"


def bare_python(folder: Path, path: Sequence[str]) -> str:
    """An environment in `folder` over the packages of this one; the path of its interpreter.

    Folders that a path file names are searched, but path files inside them are not followed: this is how an editable
    installation, which is nothing but such a file, stays behind.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "dependencies.pth").write_text("\n".join(_with_dependencies(path)) + "\n")
    return str(folder / "bin" / "python")


def _with_dependencies(path: Sequence[str]) -> list[str]:
    """Installed packages, and whatever else is searched and does not hold ourselves."""
    installed = set(site.getsitepackages())
    return [entry for entry in path if entry in installed or (Path(entry).is_dir() and not (Path(entry) / _PACKAGE).exists())]
