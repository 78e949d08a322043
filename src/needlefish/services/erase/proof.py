"""Proving it: every place that may hold an erased value is looked at again, after everything was done."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from needlefish.errors import NotFoundError
from needlefish.format.log_entry import log_path
from needlefish.format.metadata_key import hash64_part
from needlefish.format.run import path_of
from needlefish.index.run_reader import RunReader
from needlefish.model.log import STEPS, TableState
from needlefish.runtime import Runtime, in_parallel
from needlefish.services.clean import CleanOptions, clean
from needlefish.services.clean.options import Rule
from needlefish.services.clean.retired import Retired, known_tombstones
from needlefish.services.erase.report import Place
from needlefish.services.erase.scrub import chunksets_in
from needlefish.services.erase.search import Holders
from needlefish.store import RetriedStore, Store
from needlefish.timeline.heartbeat import store_time_ms
from needlefish.timeline.replay import read_entries

_EXAMPLES = 3
# Orphans that may have rows or statistics in them.
_WITH_VALUES = ("orphan file", "orphan run", "orphan work file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """What had a value of the keys, or may have had: objects by path, each with the version that took it away."""

    files: Mapping[str, int]
    runs: Mapping[str, int]


def old_objects(store: Store, state: TableState, retired: Iterable[Retired], holders: Holders) -> Old:
    """Files that hold the keys, and all runs of older versions, which may name them."""
    files = dict.fromkeys(holders.all.values(), state.version)
    runs: dict[str, int] = {}
    for one in retired:
        for path in known_tombstones(store, state, one).values():
            if path in files:
                files[path] = one.version
        runs |= {path_of(run): one.version for run in one.runs}
    return Old(files=files, runs=runs)


class Proof:
    """One look at everything. `rule` is what the clean went by."""

    def __init__(self, store: RetriedStore, state: TableState, rule: Rule, runtime: Runtime) -> None:
        self._store = store
        self._state = state
        self._rule = rule
        self._runtime = runtime

    def places(self, before: Holders, after: Holders, old: Old) -> list[Place]:
        keys = before.all.keys() | after.all.keys()
        searched = f"searched for {after.keys:,} keys in version {self._state.version}, hidden rows too"
        visible = Place(name="rows", checked=searched, gone=len(before.live), remains=len(after.live), examples=_some(after.live.values()))
        return [
            visible,
            self._objects("data files", "asked the store for each file that held a row", old.files),
            *self._records(keys, old),
            self._objects("older versions", "asked the store for each run that only they have", old.runs),
            self._leftovers(),
            self._log(),
        ]

    def _objects(self, name: str, checked: str, versions: Mapping[str, int]) -> Place:
        there = [path for path, found in zip(versions, in_parallel(self._exists, versions), strict=True) if found]
        until_ms, changes = self._until(max((versions[path] for path in there), default=None))
        return Place(
            name=name,
            checked=checked,
            gone=len(versions) - len(there),
            remains=len(there),
            until_ms=until_ms,
            changes=changes,
            examples=_some(there),
        )

    def _exists(self, path: str) -> bool:
        try:
            self._store.head(path)
        except NotFoundError:
            return False
        return True

    def _until(self, version: int | None) -> tuple[int | None, int]:
        """When a clean may remove what a version took away: its entry must be old enough, and enough changes must have followed."""
        if version is None:
            return None, 0
        changes = sum(entry.action not in STEPS for entry in read_entries(self._store, version, self._state.version))
        put_ms = self._store.head(log_path(version)).modified_ms
        return put_ms + self._rule.version_ms, max(0, self._rule.versions - changes)

    def _records(self, keys: Collection[str], old: Old) -> Iterable[Place]:
        """Of the newest version's own runs, whether one still has a record of a file that held a key."""
        columns = {hash64_part(str(field.id)) for schema in self._state.definition.schemas for field in schema.fields}
        yield self._named("file records", "files", keys)
        yield self._named("statistics", "column_stats", [column + key for column in columns for key in keys])
        yield self._named("bloom filters", "bloom_filters", keys)
        yield self._named("skips", "skips", keys)
        runs = [run for index in self._state.definition.point_indexes for run in self._state.runs_of(index.run_kind)]
        naming = [path_of(run) for run in runs if not chunksets_in(self._store, run).isdisjoint(keys)]
        gone = sum(path.startswith("_needlefish/index/") for path in old.runs)
        yield Place(
            name="point indexes",
            checked=f"read which files the {len(runs):,} index runs know",
            gone=gone,
            remains=len(naming),
            examples=_some(naming),
        )

    def _named(self, name: str, kind: str, keys: Collection[str]) -> Place:
        wanted = sorted(keys)
        readers = [RunReader(run) for run in self._state.runs_of(kind)]
        found = [
            key
            for reader in readers
            for records in (reader.with_prefixes(self._store, wanted) if wanted else ())
            for key in records["key"].to_pylist()
        ]
        checked = f"looked up the files in {len(readers):,} runs"
        return Place(name=name, checked=checked, gone=len(wanted) - min(len(found), len(wanted)), remains=len(found), examples=_some(found))

    def _leftovers(self) -> Place:
        """What failed work has left, whosever it was, may have any value in it."""
        _, found = clean(self._store, self._state, CleanOptions(dry_run=True, grace_seconds=0), self._runtime)
        some = [one for one in found.removed if one.kind in _WITH_VALUES]
        remains = sum(one.objects for one in some)
        until_ms = store_time_ms(self._store, self._runtime) + self._rule.orphan_ms if remains else None
        checked = "listed all objects that no version names"
        return Place(
            name="leftovers of failed work", checked=checked, remains=remains, until_ms=until_ms, examples=tuple(one.kind for one in some)
        )

    def _log(self) -> Place:
        """Nothing of a row is ever written there; what is free text comes from errors, which may quote a key."""
        entries = list(read_entries(self._store, self._state.oldest, self._state.version))
        quoting = [
            log_path(entry.version) for entry in entries if entry.instant is not None and "key" in (entry.instant.reason or "").split()
        ]
        until_ms, changes = self._until(self._state.version if quoting else None)
        return Place(
            name="log, checkpoints and plans",
            checked=f"read {len(entries):,} entries; they and plans name files by hashes, and what errors say was looked at",
            remains=len(quoting),
            until_ms=until_ms,
            changes=changes,
            examples=_some(quoting),
        )


def _some(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path for path, _ in zip(chain(paths), range(_EXAMPLES), strict=False))
