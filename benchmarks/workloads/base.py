"""What a workload is: files of rows made from a seed, and the keys, batches and values drawn from them.

A file's keys can be made without its other columns, so that a batch scattered over every file costs no more than its keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import numpy as np
import pyarrow as pa

Key = tuple[object, ...]
SEED = 20261116
# For each new row of a batch this many replace an old one: 200,000 updates come with 50,000 inserts.
UPDATES_PER_INSERT = 4


class Draw(IntEnum):
    """What a random stream is for. Do not renumber: results of different days are compared."""

    KEYS = 1
    VALUES = 2
    SOUGHT = 3
    UPDATES = 4
    DOOMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    files: int = 1_000
    rows: int = 20_000

    @property
    def total(self) -> int:
        return self.files * self.rows

    def scaled(self, factor: float) -> "Sizes":
        """More or fewer files, each as long as before."""
        return Sizes(files=max(1, round(self.files * factor)), rows=self.rows)


@dataclass(frozen=True, slots=True)
class Workload(ABC):
    """Rows by file number. Numbers from `sizes.files` on are rows that were never loaded."""

    sizes: Sizes
    name: ClassVar[str]
    schema: ClassVar[pa.Schema]
    key: ClassVar[tuple[str, ...]]
    partition_by: ClassVar[tuple[str, ...]] = ()
    # The column besides the key that questions are asked by.
    column: ClassVar[str]
    # Numbers, so that two scans can be compared by their sums.
    scanned: ClassVar[tuple[str, ...]]

    @abstractmethod
    def keys(self, number: int) -> pa.Table:
        """Key and partition columns of one file."""

    @abstractmethod
    def values(self, keys: pa.Table, chance: np.random.Generator) -> dict[str, pa.Array]:
        """All other columns of rows with these keys."""

    @abstractmethod
    def sought_values(self, count: int) -> list[object]:
        """Values of `column` as a user would ask for."""

    def hot_values(self, count: int) -> list[object]:
        """Values of `column` that very many rows have; none where nothing is hot."""
        return []

    def file(self, number: int) -> pa.Table:
        return self.complete(self.keys(number), self.chance(Draw.VALUES, number))

    def complete(self, keys: pa.Table, chance: np.random.Generator) -> pa.Table:
        columns = {name: keys[name] for name in keys.column_names} | self.values(keys, chance)
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    def chance(self, draw: Draw, *numbers: int) -> np.random.Generator:
        return np.random.default_rng([SEED, draw, *numbers])

    def present_keys(self, count: int) -> list[Key]:
        return self._picked(count, 0)

    def absent_keys(self, count: int) -> list[Key]:
        return self._picked(count, self.sizes.files)

    def batch(self, share: float, salt: int) -> pa.Table:
        """Rows to upsert: a share of all rows with new values, and a quarter as many rows with new keys."""
        count = max(UPDATES_PER_INSERT, round(self.sizes.total * share))
        updates = self.scattered(count, Draw.UPDATES, salt)
        fresh = self._fresh(count // UPDATES_PER_INSERT, salt)
        keys = pa.concat_tables([updates, fresh]).combine_chunks()
        chance = self.chance(Draw.UPDATES, salt, 1)
        mixed = keys.take(pa.array(chance.permutation(len(keys))))
        return self.complete(mixed, chance)

    def doomed(self, share: float, salt: int) -> pa.Table:
        """Key and partition columns of rows to delete."""
        return self.scattered(max(1, round(self.sizes.total * share)), Draw.DOOMED, salt)

    def scattered(self, count: int, draw: Draw, salt: int) -> pa.Table:
        """Keys of `count` different rows, as evenly over the files as it goes."""
        chance = self.chance(draw, salt)
        each = np.bincount(np.arange(count) % self.sizes.files, minlength=self.sizes.files)
        numbers = chance.permutation(self.sizes.files)
        parts = [self._some(int(number), int(taken), chance) for number, taken in zip(numbers, each, strict=True) if taken]
        return pa.concat_tables(parts).combine_chunks()

    def _some(self, number: int, count: int, chance: np.random.Generator) -> pa.Table:
        return self.keys(number).take(pa.array(chance.choice(self.sizes.rows, count, replace=False)))

    def _fresh(self, count: int, salt: int) -> pa.Table:
        """Keys that neither the files nor any batch with another salt has."""
        first = self.sizes.files * (2 + salt)
        needed = -(-count // self.sizes.rows)
        return pa.concat_tables([self.keys(first + number) for number in range(needed)]).slice(0, count)

    def _picked(self, count: int, first: int) -> list[Key]:
        """From different files as long as there are any; the absent ones from as many files that were never loaded."""
        chance = self.chance(Draw.SOUGHT, first)
        files = chance.permutation(self.sizes.files) + first
        each = np.bincount(np.arange(count) % len(files), minlength=len(files))
        parts = [self._some(int(number), int(taken), chance) for number, taken in zip(files, each, strict=True) if taken]
        rows = pa.concat_tables(parts).select(list(self.key)).to_pylist()
        return [tuple(row[name] for name in self.key) for row in rows]


def random_ids(rows: int, chance: np.random.Generator) -> pa.Array:
    """Strings of 32 hexadecimal digits, in no order."""
    offsets = np.arange(0, 32 * (rows + 1), 32, dtype=np.int32)
    letters = chance.bytes(16 * rows).hex().encode()
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(letters))


def drawn_texts(texts: Sequence[str], rows: int, chance: np.random.Generator) -> pa.Array:
    places = pa.array(chance.integers(0, len(texts), rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(places, pa.array(texts)).cast(pa.string())


def moments(first_us: int, micros: np.ndarray) -> pa.Array:
    return pa.array(first_us + micros).cast(pa.timestamp("us", tz="UTC"))
