"""Options of the data source. Spark hands every one over as text, and does not tell upper from lower case in their names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceReader

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.spark.source.option_texts import columns_from, flag_from, partitions_from, timestamp_ms_from, version_from

STORAGE = "storage."
READING = ("path", "version", "timestamp", "columns", "partitions", "where", "pushdown")

# What Spark adds to the options of a table that is declared in a catalog; the declared ones come twice, once behind this.
_DECLARED, _OPTION = "provider", "option."

# Spark 4.3 keeps what it pushed into one query of a frame and reads with it in every other query of that frame which pushes nothing,
# and in all of a query's scans of the frame. What is known to have been mended along with it is the pushing of limits.
KEEPS_FILTERS_APART = hasattr(DataSourceReader, "pushLimit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a read may be told."""

    store: StoreConfig
    version: int | None = None
    timestamp_ms: int | None = None
    columns: tuple[str, ...] | None = None
    partitions: Mapping[str, object] | None = None
    where: str | None = None
    pushdown: bool = KEEPS_FILTERS_APART


def store_config(options: Mapping[str, str]) -> StoreConfig:
    """Where the table is: `path`, and the store's own options, each behind `storage.`."""
    path = options.get("path", "").strip()
    if not path:
        remedy = "load('s3://bucket/table'), or in SQL USING needlefish OPTIONS (path 's3://bucket/table') without a list of columns"
        raise InvalidError(f"path is {path!r}; name the table: {remedy}")
    # A catalog spells local paths like this, with one slash.
    if path.startswith("file:/") and not path.startswith("file://"):
        path = "file://" + path[len("file:") :]
    storage = {name[len(STORAGE) :]: value for name, value in options.items() if name.lower().startswith(STORAGE)}
    return StoreConfig(uri=path, options=storage)


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """All of them, checked; one that nobody knows is refused, since a slip of the pen would read something else."""
    check_names(options, READING)
    version, timestamp = options.get("version"), options.get("timestamp")
    if version is not None and timestamp is not None:
        raise InvalidError(f"version is {version!r} and timestamp is {timestamp!r}; give one of them")
    return ReadOptions(
        store=store_config(options),
        version=None if version is None else version_from(version),
        timestamp_ms=None if timestamp is None else timestamp_ms_from(timestamp),
        columns=None if (columns := options.get("columns")) is None else columns_from(columns),
        partitions=None if (partitions := options.get("partitions")) is None else partitions_from(partitions),
        where=options.get("where"),
        pushdown=KEEPS_FILTERS_APART if (pushdown := options.get("pushdown")) is None else flag_from("pushdown", pushdown),
    )


def is_declaration(options: Mapping[str, str]) -> bool:
    """Whether these are the options of a CREATE TABLE."""
    return _DECLARED in options


def check_names(options: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuses an option that is neither known nor the store's."""
    names = tuple(known)
    for name in _given_names(options):
        if name.lower() not in names and not name.lower().startswith(STORAGE):
            raise InvalidError(f"option {name!r} is {options[name]!r}, which nobody reads; known are {', '.join(names)} and {STORAGE}NAME")


def _given_names(options: Mapping[str, str]) -> list[str]:
    """Of a declaration, without the table's properties."""
    if is_declaration(options):
        return [name[len(_OPTION) :] for name in options if name.lower().startswith(_OPTION)]
    return list(options)
