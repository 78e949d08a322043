"""The Parquet files that all peers without a store of their own read: written once, as their documentation advises.

One row group a file (engines ask for 100,000 rows and more in one, and no file has more than that here), zstd, statistics,
and a Bloom filter on the key and on the column that is asked by.
"""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq

from benchmarks.peers.base import Place
from benchmarks.workloads.base import Workload

_RATE = 0.01


def write_shared(workload: Workload, place: Place) -> None:
    store, root = file_system(place, place.shared)
    if place.local:
        Path(root).mkdir(parents=True, exist_ok=True)
    for number in range(workload.sizes.files):
        write_file(workload, workload.file(number), f"{root}/{number:06}.parquet", store)


def write_file(workload: Workload, rows: pa.Table, path: str, store: fs.FileSystem | None = None) -> None:
    filtered = {column: {"ndv": len(rows), "fpp": _RATE} for column in (workload.key[0], workload.column)}
    pq.write_table(rows, path, filesystem=store, compression="zstd", row_group_size=len(rows), bloom_filter_options=filtered)


def shared_files(place: Place) -> list[str]:
    store, root = file_system(place, place.shared)
    return sorted(info.path for info in store.get_file_info(fs.FileSelector(root)) if info.path.endswith(".parquet"))


def file_system(place: Place, uri: str) -> tuple[fs.FileSystem, str]:
    """pyarrow's file system for a URI, and the path in it."""
    if place.local:
        return fs.LocalFileSystem(), uri
    parts = urlsplit(place.options["aws_endpoint"])
    store = fs.S3FileSystem(
        access_key=place.options["aws_access_key_id"],
        secret_key=place.options["aws_secret_access_key"],
        region=place.options["aws_region"],
        scheme=parts.scheme,
        endpoint_override=parts.netloc,
    )
    return store, uri.removeprefix("s3://")


def linked(place: Place) -> list[str]:
    """The shared files under the peer's own place: the same bytes, so that a peer may adopt them and leave others alone."""
    own = Path(place.own) / "data"
    own.mkdir(parents=True, exist_ok=True)
    found = []
    for path in map(Path, shared_files(place)):
        _link(path, own / path.name)
        found.append(str(own / path.name))
    return found


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(source, target)
