"""Building a point index beside Lance's BTREE on the same rows: random ids of 32 characters in granules of 8,192."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from benchmarks.point_index.runs import KINDS, builder_for, definition, granule, local_store
from benchmarks.point_index.scale import Scale
from benchmarks.point_index.timing import seconds
from needlefish.filters.hash import hash_array
from needlefish.index.point import Hashes
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import Store

_GRANULE_ROWS = 8_192
_BATCH_ROWS = 1 << 20
_ID_CHARACTERS = 32
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def measure(scale: Scale) -> dict[str, object]:
    ids = list(_ids(scale.lance_rows))
    ours = [_ours(kind_index, ids) for kind_index in (definition(kind, scale.lance_rows, _GRANULE_ROWS) for kind in KINDS)]
    return {"rows": scale.lance_rows, "granule_rows": _GRANULE_ROWS, "lance": _lance(ids), "ours": ours}


def _ids(rows: int) -> Iterator[pa.Array]:
    """Hexadecimal texts made without a Python object for each."""
    chance = np.random.default_rng(1)
    for start in range(0, rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, rows - start)
        letters = _DIGITS[chance.integers(0, 16, count * _ID_CHARACTERS, np.uint8)]
        offsets = np.arange(count + 1, dtype=np.int32) * _ID_CHARACTERS
        yield pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))


def _lance(ids: list[pa.Array]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder) / "rows.lance")
        dataset = lance.write_dataset(pa.table({"id": pa.chunked_array(ids)}), uri)
        taken = seconds(lambda: dataset.create_scalar_index("id", "BTREE"))
        size = sum(path.stat().st_size for path in (Path(uri) / "_indices").rglob("*") if path.is_file())
        return {"seconds": taken, "rows_per_s": sum(map(len, ids)) / taken, "bytes": size}


def _ours(index: PointIndexDefinition, ids: list[pa.Array]) -> dict[str, object]:
    """From the column: hash and build; from hashes: build. Both put the run durably, as Lance does."""
    rows = sum(map(len, ids))
    found: list[RunRef] = []
    with local_store() as store:
        column = min(seconds(lambda: found.append(_build(store, index, _hashed(ids)))) for _ in range(2))
        hashes = list(_hashed(ids))
        built = min(seconds(lambda: found.append(_build(store, index, hashes))) for _ in range(2))
    rates = {"from_column_rows_per_s": rows / column, "from_hashes_rows_per_s": rows / built}
    return {"kind": index.kind, "seconds_from_column": column, "seconds_from_hashes": built, **rates, "bytes": found[-1].bytes}


def _hashed(ids: list[pa.Array]) -> Iterator[Hashes]:
    return (hash_array(part).present() for part in ids)


def _build(store: Store, index: PointIndexDefinition, blocks: Iterator[Hashes] | list[Hashes]) -> RunRef:
    builder, number = builder_for(index), 0
    for block in blocks:
        for start in range(0, len(block), _GRANULE_ROWS):
            builder.add(granule(number), block[start : start + _GRANULE_ROWS])
            number += 1
    return builder.finish(store, SYSTEM)
