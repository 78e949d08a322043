"""Probing a run for many hashes: every row that is wanted is read once, in the order of the file."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.cuckoo_hash import places_of
from needlefish.format.cuckoo_rows import Rows
from needlefish.format.cuckoo_run import rows_region
from needlefish.index.cuckoo.file import CuckooFile, stripe_rows
from needlefish.index.cuckoo.filters import Filters
from needlefish.index.cuckoo.search import search_rows
from needlefish.index.point import Hashes, Hits
from needlefish.store import Store

# Rows of which this share is wanted are read as one stretch: bytes in vain cost less than requests.
_DENSE = 0.5

Numbers = NDArray[np.int64]


class Batch:
    """The questions of one batch, sorted by bucket: which hash asks which row for which fingerprint."""

    def __init__(self, file: CuckooFile, filters: Filters, hashes: Hashes) -> None:
        self._file = file
        self._filters = filters
        point = file.point
        found = places_of(hashes, point.buckets, point.bits)
        places = np.arange(len(hashes), dtype=np.int64)
        # A hash whose buckets are one asks once.
        apart = found.first != found.second
        buckets = np.concatenate([found.first, found.second[apart]])
        asked = np.flatnonzero((buckets >= point.first) & (buckets < point.end))
        asked = asked[np.argsort(buckets[asked], kind="stable")]
        self._buckets = buckets[asked]
        self._places = np.concatenate([places, places[apart]])[asked]
        self._fingerprints = np.concatenate([found.fingerprints, found.fingerprints[apart]])[asked]
        # Filters that may hold everything are said once in all parts of a run: by the one that has the first bucket.
        self._here = places[(found.first >= point.first) & (found.first < point.end)]

    def hits(self, store: Store) -> Hits:
        stripes = [self._matches(store, wanted) for wanted in self._stripes()]
        full = self._filters.everything
        places = [each[0] for each in stripes] + [np.repeat(self._here, len(full))]
        ordinals = [each[1] for each in stripes] + [np.tile(full, len(self._here))]
        return sorted_hits(np.concatenate(places), np.concatenate(ordinals))

    def _stripes(self) -> Iterator[Numbers]:
        """Buckets that are read together."""
        wanted = self._buckets[_changes(self._buckets)]
        each = stripe_rows(self._file.point.row_bytes)
        yield from (wanted[start : start + each] for start in range(0, len(wanted), each))

    def _matches(self, store: Store, wanted: Numbers) -> tuple[Numbers, Numbers]:
        asked = slice(*np.searchsorted(self._buckets, [wanted[0], wanted[-1] + 1]).tolist())
        row_numbers = np.cumsum(_changes(self._buckets[asked])) - 1
        rows = self._rows(store, wanted)
        matches = search_rows(rows, self._file.point.bits, self._filters.total_slots, row_numbers, self._fingerprints[asked])
        owners = self._filters.owners(matches.positions)
        kept = self._filters.kept(owners)
        return self._places[asked][matches.questions[kept]], owners[kept]

    def _rows(self, store: Store, wanted: Numbers) -> Rows:
        point = self._file.point
        first, end = int(wanted[0]), int(wanted[-1]) + 1
        if len(wanted) >= _DENSE * (end - first):
            (data,) = self._file.read(store, [rows_region(point, first, end)])
            return self._file.checked(data, np.arange(first, end))[wanted - first]
        found = self._file.read(store, [rows_region(point, bucket, bucket + 1) for bucket in wanted.tolist()])
        return self._file.checked(b"".join(found), wanted)


def _changes(numbers: Numbers) -> NDArray[np.bool_]:
    """Where a number is not the one before it."""
    new = np.ones(len(numbers), np.bool_)
    new[1:] = numbers[1:] != numbers[:-1]
    return new


def no_hits() -> Hits:
    return Hits(np.zeros(0, np.int64), np.zeros(0, np.int64))


def sorted_hits(places: Numbers, ordinals: Numbers) -> Hits:
    """In order, and no pair twice, whatever a foreign writer put into both buckets of a value."""
    if len(places) <= 1:
        return Hits(places, ordinals.astype(np.int64, copy=False))
    order = np.lexsort((ordinals, places))
    places, ordinals = places[order], ordinals[order].astype(np.int64, copy=False)
    new = _changes(places) | _changes(ordinals)
    return Hits(places[new], ordinals[new])
