"""Keys that several files of one partition share: suspected by their hashes over all files, decided by the keys themselves."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.store import Store, open_store
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.key_repeats import key_hashes, keys_with, overlapping

KEY_SCHEMA = pa.schema([("place", pa.int64()), ("hash", pa.int64())])
KEY_TEXT = "place bigint, hash bigint"
REPEAT_SCHEMA = pa.schema([("place", pa.int64()), ("key", pa.binary()), ("shown", pa.string()), ("path", pa.string())])
REPEAT_TEXT = "place bigint, key binary, shown string, path string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A file whose keys another file of the same place may have too. A place is a partition, or the whole table."""

    place: int
    info: ChunksetInfo


def suspects(definition: TableDefinition, infos: Iterable[ChunksetInfo]) -> list[Suspect]:
    """The files whose key ranges overlap: files that were written in key order need no look at their keys."""
    places: dict[str, list[ChunksetInfo]] = defaultdict(list)
    for info in infos:
        places["" if definition.properties.global_keys else info.partition].append(info)
    return [Suspect(place=place, info=info) for place, (_, together) in enumerate(sorted(places.items())) for info in overlapping(together)]


def _suspects_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Suspect]:
    return (msgspec.msgpack.decode(item, type=Suspect) for rows in batches for item in rows["item"].to_pylist())


def _keys(store: Store, definition: TableDefinition, info: ChunksetInfo) -> Iterator[pa.Table]:
    chunkset = open_chunkset(store, definition, info)
    return (chunkset.read([number], definition.key_fields) for number in range(len(info.granules)))


@dataclass(frozen=True, slots=True, kw_only=True)
class HashTask:
    """A callable over batches of suspects: the hash of every key."""

    definition: TableDefinition
    store: StoreConfig

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.store)
        for suspect in _suspects_of(batches):
            for rows in _keys(store, self.definition, suspect.info):
                # The engine's longs have a sign; the bits are the same.
                hashes = key_hashes(rows, self.definition.key_fields).view(np.int64)
                places = np.full(len(hashes), suspect.place, np.int64)
                yield pa.RecordBatch.from_arrays([pa.array(places), pa.array(hashes)], schema=KEY_SCHEMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmTask:
    """A callable over batches of suspects: the keys with a hash that occurred more than once, and their file."""

    definition: TableDefinition
    store: StoreConfig
    hashes: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.store)
        wanted = np.array(self.hashes, np.int64).view(np.uint64)
        for suspect in _suspects_of(batches):
            rows = _keys(store, self.definition, suspect.info)
            found = [
                {"place": suspect.place, "key": encoded, "shown": str(key), "path": suspect.info.path}
                for encoded, key in keys_with(rows, self.definition.key_fields, wanted)
            ]
            yield pa.RecordBatch.from_pylist(found, schema=REPEAT_SCHEMA)


def first_repeat(rows: Sequence[dict[str, object]]) -> str | None:
    """The refusal that the confirmed keys amount to, the same in every run of the job; None if hashes merely collided."""
    seen: dict[tuple[object, object], object] = {}
    ordered = sorted(rows, key=lambda row: (str(row["shown"]), str(row["path"])))
    for row in ordered:
        other = seen.setdefault((row["place"], row["key"]), row["path"])
        if other != row["path"]:
            return f"the key {row['shown']} is in {other} and in {row['path']}; a key names one row: choose another key, or deduplicate the rows"
    return None
