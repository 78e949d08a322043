"""Adopting as a Spark job: one pass over all files, then one over the keys of those whose key ranges overlap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from needlefish.errors import InvalidError
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.model.schema import Schema
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.adopt import (
    KEY_TEXT,
    REPEAT_TEXT,
    AdoptTask,
    ConfirmTask,
    FoundFile,
    HashTask,
    Suspect,
    check_no_table,
    commit_adoption,
    first_repeat,
    inferred_schema,
    list_files,
    suspects,
)
from needlefish.services.shares import SHARE_TEXT, Share, item_rows, joined
from needlefish.spark.dealing import dealt
from needlefish.spark.errors import our_errors
from needlefish.spark.index import consolidate
from needlefish.spark.reachable import check_reachable
from needlefish.store import RetriedStore
from needlefish.table.create import define_table
from needlefish.table.point.declare import PointIndex

# Hashes of different keys collide once in billions, so that a handful of equal ones is enough to find an equal key.
_MOST_DOUBTFUL = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """The table as the caller wants it; without a schema, the first file's."""

    schema: Schema | None
    key: str | Sequence[str]
    partition_by: str | Sequence[str]
    bloom_columns: str | Sequence[str]
    indexes: Sequence[PointIndex] | None
    properties: Mapping[str, object]


def adopt_files(spark: SparkSession, store: RetriedStore, wanted: Adoption, runtime: Runtime = SYSTEM) -> TableState:
    """Makes the directory at the store's root a table."""
    check_reachable(store)
    check_no_table(store)
    files = list_files(store)
    schema = wanted.schema or inferred_schema(store, files)
    definition = define_table(
        schema, wanted.key, wanted.partition_by, wanted.properties, runtime, bloom_columns=wanted.bloom_columns, indexes=wanted.indexes
    )
    with our_errors():
        share = _looked_at(spark, store, definition, files)
        _check_repeats(spark, store, definition, share.infos)
    return commit_adoption(store, definition, share.infos, consolidate(spark, store, share.runs, runtime), runtime)


def _looked_at(spark: SparkSession, store: RetriedStore, definition: TableDefinition, files: Sequence[FoundFile]) -> Share:
    task = AdoptTask(definition=definition, store=store.config)
    items = dealt(spark, item_rows((file.path, file) for file in files), sum(file.size for file in files))
    return joined(items.mapInArrow(task.__call__, SHARE_TEXT).toArrow())


def _check_repeats(spark: SparkSession, store: RetriedStore, definition: TableDefinition, infos: Sequence[ChunksetInfo]) -> None:
    doubted = suspects(definition, infos)
    if not doubted:
        return
    hashes = HashTask(definition=definition, store=store.config)
    counted = _dealt(spark, doubted).mapInArrow(hashes.__call__, KEY_TEXT).groupBy("place", "hash").agg(sf.count("*").alias("n"))
    doubtful: pa.Table = counted.where("n > 1").limit(_MOST_DOUBTFUL).toArrow()
    if not doubtful.num_rows:
        return
    places = set(doubtful["place"].to_pylist())
    confirm = ConfirmTask(definition=definition, store=store.config, hashes=tuple(set(doubtful["hash"].to_pylist())))
    found = _dealt(spark, [suspect for suspect in doubted if suspect.place in places]).mapInArrow(confirm.__call__, REPEAT_TEXT).toArrow()
    refusal = first_repeat(found.to_pylist())
    if refusal is not None:
        raise InvalidError(refusal)


def _dealt(spark: SparkSession, doubted: Sequence[Suspect]) -> DataFrame:
    items = item_rows((suspect.info.path, suspect) for suspect in doubted)
    return dealt(spark, items, sum(suspect.info.bytes for suspect in doubted))
