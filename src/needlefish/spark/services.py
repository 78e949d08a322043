"""Who executes plans on Spark. All jobs of a plan carry a tag, by which they are interrupted from another thread."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.execute import Worker
from needlefish.services.rewrite import RewritePlan
from needlefish.spark.rewrite import written_on_spark
from needlefish.store import RetriedStore
from needlefish.table.task import Written


def spark_worker(spark: SparkSession, store: RetriedStore) -> Worker:
    """For one plan; the session may do other things beside it."""
    tags = _tags_of(spark)
    tag = f"needlefish-{SYSTEM.new_owner()}"

    def write(state: TableState, plan: RewritePlan, runtime: Runtime) -> Written:
        # Of the jobs that this thread starts meanwhile.
        tags.add(tag)
        try:
            return written_on_spark(spark, store, state, plan, runtime.owner)
        finally:
            tags.remove(tag)

    def interrupt() -> None:
        tags.interrupt(tag)

    return Worker(write=write, interrupt=interrupt)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tags:
    """How a session names its jobs, and interrupts those of a name."""

    add: Callable[[str], None]
    remove: Callable[[str], None]
    interrupt: Callable[[str], object]


def _tags_of(spark: SparkSession) -> _Tags:
    """In a classic session a session's tag is known to its own thread alone, while interrupts come from another: there the
    context's tags serve, which all threads share. Over Connect there is no context, and the session's tags are the server's.
    """
    try:
        context = spark.sparkContext
    except (PySparkException, AttributeError):
        return _Tags(add=spark.addTag, remove=spark.removeTag, interrupt=spark.interruptTag)
    return _Tags(add=context.addJobTag, remove=context.removeJobTag, interrupt=context.cancelJobsWithTag)
