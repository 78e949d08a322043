"""What every peer does: the same verbs over the same rows, each the way its own documentation advises.

A verb that a peer lacks raises Unsupported with the reason, which the result then carries: nothing is left out silently.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from benchmarks.workloads.base import Key, Workload


class Unsupported(Exception):  # noqa: N818 - an answer, not a failure
    """This peer has no such verb; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the rows are: plain Parquet files that several peers read, and a place of each peer's own."""

    shared: str
    own: str
    # For an object store, as obstore names them; empty on a local disk.
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        return "://" not in self.own


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What the last question asked of the store, where a peer counts that."""

    requests: int
    read_bytes: int


class Peer(ABC):
    """One system holding one workload. It has at most one handle, which `open` replaces by a fresh one."""

    name: ClassVar[str]
    # How it is configured, for the report.
    setup: ClassVar[str]
    # Whether it answers from the Parquet files that all such peers share.
    reads_shared: ClassVar[bool] = False

    def __init__(self, workload: Workload, place: Place) -> None:
        self.workload = workload
        self.place = place
        self.opened = False

    @property
    def folder(self) -> Path:
        """What this peer keeps on a local disk."""
        return Path(self.place.shared if self.reads_shared else self.place.own)

    @abstractmethod
    def load(self) -> None:
        """Stores the workload's files; the shared ones are there already."""

    @abstractmethod
    def open(self) -> None:
        """A fresh handle that has cached nothing."""

    def reopen(self) -> None:
        self.open()
        self.opened = True

    @abstractmethod
    def find(self, keys: Sequence[Key]) -> pa.Table: ...

    @abstractmethod
    def find_by(self, values: Sequence[object]) -> pa.Table:
        """Rows by the workload's column that is not the key."""

    @abstractmethod
    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...

    def ready_to_write(self) -> None:
        """What a writer keeps running between batches, started before anything is timed."""
        return

    def upsert(self, batch: Path) -> None:
        raise Unsupported(self._lacks("upsert"))

    def delete(self, keys: Path) -> None:
        raise Unsupported(self._lacks("delete"))

    def maintain(self) -> None:
        raise Unsupported(self._lacks("maintain"))

    def traffic(self) -> Traffic | None:
        return None

    def close(self) -> None:
        """Lets go of the handle."""
        return

    def _lacks(self, verb: str) -> str:
        return f"plain Parquet files have no {verb}"
