"""Who executes a plan: this process if it is small, Spark if it is not. Spark is started only for a plan that needs it."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from needlefish.api.session import spark_session
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.services.execute import Worker
from needlefish.services.here_worker import here_worker
from needlefish.services.rewrite import RewritePlan
from needlefish.store import RetriedStore
from needlefish.table.task import Written

if TYPE_CHECKING:
    from needlefish.spark.names import SparkSession

# Read and written here in a second or two, which is less than a Spark job with cold Python workers takes.
HERE_BYTES = 32 * 1024 * 1024


def worker_for(store: RetriedStore, start_spark: "Callable[[], SparkSession]" = spark_session, here_bytes: int = HERE_BYTES) -> Worker:
    """For one plan, whose size decides when its work begins."""
    chosen: list[Worker] = []

    def write(state: TableState, plan: RewritePlan, runtime: Runtime) -> Written:
        chosen.append(here_worker(store) if _fits_here(store, plan, here_bytes) else _on_spark(store, start_spark))
        return chosen[0].write(state, plan, runtime)

    def interrupt() -> None:
        for worker in chosen:
            worker.interrupt()

    return Worker(write=write, interrupt=interrupt)


def _fits_here(store: RetriedStore, plan: RewritePlan, here_bytes: int) -> bool:
    """Without Spark everything does; and tasks in other processes do not see a table in this one's memory."""
    return plan.bytes < here_bytes or find_spec("pyspark") is None or store.uri.startswith("memory://")


def _on_spark(store: RetriedStore, start_spark: "Callable[[], SparkSession]") -> Worker:
    from needlefish.spark.services import spark_worker

    return spark_worker(start_spark(), store)
