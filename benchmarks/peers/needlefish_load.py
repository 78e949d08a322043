"""Loading many files as an application without Spark would: each process writes its share of chunksets, ten commits in all.

The pipeline's append would sort the whole batch and give every chunkset a key range of its own. A table that grew day by day
has no such luck, and its random keys are the harder case for a find.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import chain
from multiprocessing import get_context

import pyarrow as pa

from benchmarks.workloads.base import Workload
from needlefish.config import StoreConfig
from needlefish.model.entries import ChunksetEntries
from needlefish.runtime import SYSTEM
from needlefish.services.merge import tidy
from needlefish.store import open_store
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.commit import commit_append
from needlefish.table.point.runs import indexed_keys
from needlefish.table.task import RESULT_SCHEMA, collect, hand_back
from needlefish.testing.tables import sorted_batches
from needlefish.timeline import read_newest

COMMITS = 10
# Below this many files a second process takes longer to start than to help.
_MANY_FILES = 64


def load_files(uri: str, options: Mapping[str, str], workload: Workload) -> None:
    store = open_store(StoreConfig(uri=uri, options=dict(options)))
    commits = min(COMMITS, workload.sizes.files)
    with ExitStack() as stack:
        pool = None
        if workload.sizes.files >= _MANY_FILES:
            pool = stack.enter_context(ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")))
        for commit in range(commits):
            numbers = range(commit, workload.sizes.files, commits)
            results = pa.concat_tables(_written(pool, uri, options, workload, numbers))
            state = commit_append(store, read_newest(store), collect(results))
        tidy(store, state)


def _written(
    pool: ProcessPoolExecutor | None, uri: str, options: Mapping[str, str], workload: Workload, numbers: Sequence[int]
) -> list[pa.Table]:
    if pool is None:
        return [write_share(uri, options, workload, numbers)]
    shares = [numbers[first :: os.cpu_count() or 1] for first in range(os.cpu_count() or 1)]
    jobs = [pool.submit(write_share, uri, dict(options), workload, share) for share in shares if share]
    return [job.result() for job in jobs]


def write_share(uri: str, options: Mapping[str, str], workload: Workload, numbers: Sequence[int]) -> pa.Table:
    """Chunksets of some files, written and not yet committed."""
    store = open_store(StoreConfig(uri=uri, options=dict(options)))
    state = read_newest(store)
    plan = WritePlan(definition=state.definition, prev_max=state.version, indexed_keys=indexed_keys(state))

    def written(number: int) -> Iterator[ChunksetEntries]:
        return write_chunksets(sorted_batches(workload.file(number), state.definition), plan, store, SYSTEM)

    entries = chain.from_iterable(map(written, numbers))
    return pa.Table.from_batches(hand_back(entries, plan, store, SYSTEM), schema=RESULT_SCHEMA)
