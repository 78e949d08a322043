"""How far the running Spark jobs are, where the session can tell."""

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.core.status import StatusTracker
    from pyspark.sql import SparkSession


class JobProgress:
    """Asks Spark's status tracker, which only a classic session has: over Connect there is nothing to tell."""

    def __init__(self, spark: "SparkSession") -> None:
        self._tracker = _tracker_of(spark)

    def tasks(self) -> tuple[int, int] | None:
        """Tasks done and tasks known of all running jobs; Spark learns of further ones as it goes."""
        if self._tracker is None:
            return None
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getActiveJobsIds()]
        stages = [self._tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        known = [stage for stage in stages if stage]
        return (sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)) if known else None


def _tracker_of(spark: "SparkSession") -> "StatusTracker | None":
    try:
        return spark.sparkContext.statusTracker()
    except (PySparkException, AttributeError):
        return None
