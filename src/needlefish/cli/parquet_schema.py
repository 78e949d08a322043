"""`--like FILE`: the columns of a Parquet file, wherever a store can reach it."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.store import StoreFile, open_store


def read_parquet_schema(file: str, options: dict[str, str]) -> pa.Schema:
    """Reads the footer alone. Storage options are those of the table, and mean nothing for a local file."""
    folder, name = os.path.split(file)
    if not name:
        raise InvalidError(f"--like {file!r} names a folder; give one Parquet file in it")
    store = open_store(StoreConfig(uri=folder or ".", options=options if "://" in file else {}))
    try:
        return pq.read_schema(StoreFile(store, name))
    except pa.ArrowException as error:
        raise InvalidError(f"--like {file!r} is no Parquet file: {str(error).splitlines()[0]}") from error
