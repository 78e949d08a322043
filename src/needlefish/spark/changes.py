"""What upserts and deletes share on Spark: comparing the keys of a change with the table, and telling the time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from needlefish.errors import NeedlefishError
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.spark.errors import our_errors
from needlefish.store import RetriedStore
from needlefish.table.tag import PARCEL_TEXT
from needlefish.table.upsert.compare import MarkTask, ProbeKeysTask, compare_here
from needlefish.table.upsert.healing import Healing
from needlefish.table.upsert.key_file import WORK_PREFIX
from needlefish.table.upsert.marks import MARK_TEXT, Marks, marks_of
from needlefish.table.upsert.plan import ComparePlan
from needlefish.table.upsert.sources import Source, source_rows

# Up to so many keys are compared in this process with what others have just committed: starting jobs would take longer.
_FEW_KEYS = 50_000


class Stages:
    """Seconds of every stage, in their order."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = self._clock.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + self._clock.monotonic() - started


def compared(spark: SparkSession, store: RetriedStore, sources: Sequence[Source], plan: ComparePlan) -> Marks:
    """The rows that the sources' keys hide, by two tasks: keys go to files, and every file is read once."""
    if not sources or not plan.state.runs_of("files"):
        return Marks()
    with our_errors():
        items = spark.createDataFrame(source_rows(sources)).repartition(len(sources))
        parcels = items.mapInArrow(ProbeKeysTask(plan=plan).__call__, PARCEL_TEXT)
        by_file = parcels.repartition("file").sortWithinPartitions("file")
        return marks_of(by_file.mapInArrow(MarkTask(plan=plan).__call__, MARK_TEXT).toArrow().to_batches())


def healing(spark: SparkSession, store: RetriedStore, base: TableState, sources: Sequence[Source], plan: ComparePlan) -> Healing:
    """For a change whose keys come from `sources`."""
    partitions = {partition for source in sources for partition in source.partitions}
    anywhere = base.definition.properties.global_keys

    def concerns(info: ChunksetInfo) -> bool:
        return anywhere or info.partition in partitions

    def compare(added: TableState) -> Marks:
        within = ComparePlan(state=added, store=plan.store, order_by=plan.order_by)
        if sum(source.rows for source in sources) <= _FEW_KEYS:
            return compare_here(store, sources, within)
        return compared(spark, store, sources, within)

    return Healing(store, base, concerns, compare)


def remove_work(store: RetriedStore, folder: str) -> None:
    """What tasks handed each other. The change stands or fails without it, so that a store that does not answer is no reason
    to fail: a clean removes what is left."""
    try:
        store.delete([found.path for found in store.list(folder)])
    except NeedlefishError:
        return


def work_folder(runtime: Runtime) -> str:
    return WORK_PREFIX + runtime.new_id()
