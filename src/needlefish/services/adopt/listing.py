"""The files of a directory, and what their paths say: `day=2026-11-01/host=a/part-0.parquet`."""

from dataclasses import dataclass

from needlefish.errors import InvalidError
from needlefish.store import Store
from needlefish.table.partition import unescape

# What Spark, Hive and everybody after them keep beside the data: markers, checksums, unfinished work, and our own folder.
_HIDDEN = ("_", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file to be adopted."""

    path: str
    size: int

    @property
    def values(self) -> dict[str, str | None]:
        """The columns that folders of the path spell out, as text."""
        folders = self.path.split("/")[:-1]
        pairs = (folder.partition("=") for folder in folders)
        return {unescape(name) or "": unescape(value) for name, sign, value in pairs if sign and name}


def list_files(store: Store) -> list[FoundFile]:
    """Every file below the store's root that is not hidden, in byte order of paths."""
    listed = (FoundFile(path=found.path, size=found.size) for found in store.list(""))
    files = [file for file in listed if not any(part.startswith(_HIDDEN) for part in file.path.split("/"))]
    if not files:
        raise InvalidError(f"uri is {store.uri}, where there are no files to adopt; check the address, or create a table instead")
    return files
