"""The demo's directory: replaced if an earlier demo made it, refused if anything else is in it."""

import shutil
import tempfile
from pathlib import Path

from needlefish.errors import AlreadyExistsError, InvalidError

DEFAULT = str(Path(tempfile.gettempdir()) / "needlefish-demo")
# Only a directory that holds this file may be emptied.
MARK = ".made-by-needlefish-demo"


def cleared(text: str) -> Path:
    """An empty, marked directory at `text`."""
    if "://" in text:
        raise InvalidError(f"DIR is {text!r}; the demo shows files on a local disk: give a path")
    place = Path(text).expanduser().absolute()
    try:
        _clear(place)
        place.mkdir(parents=True, exist_ok=True)
        (place / MARK).touch()
    except OSError as error:
        raise InvalidError(f"DIR is {text!r}, which cannot be written: {error.strerror}; give another directory") from error
    return place


def _clear(place: Path) -> None:
    if not place.exists():
        return
    if not place.is_dir() or (not (place / MARK).is_file() and any(place.iterdir())):
        raise AlreadyExistsError(
            f"DIR is {str(place)!r}, which holds something that is not an earlier demo; give an empty or a new directory"
        )
    shutil.rmtree(place)
