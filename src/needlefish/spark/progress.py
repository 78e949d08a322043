"""How far the running Spark jobs are, for whoever watches a terminal."""

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler


class JobProgress:
    """Asks classic Spark's status tracker; a Connect server tells by itself. Nothing else of ours depends on either."""

    def __init__(self, spark: "SparkSession") -> None:
        self._tracker: Any = None
        self._told: tuple[int, int] | None = None
        if is_remote():
            spark.registerProgressHandler(cast("ProgressHandler", self._hear))
        else:
            self._tracker = spark.sparkContext.statusTracker()

    def tasks(self) -> tuple[int, int] | None:
        """Tasks done and tasks known of all running jobs; Spark learns of further ones as it goes."""
        return self._told if self._tracker is None else self._asked()

    def _asked(self) -> tuple[int, int] | None:
        jobs = [self._tracker.getJobInfo(job) for job in self._tracker.getActiveJobsIds()]
        stages = [self._tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        known = [stage for stage in stages if stage]
        return (sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)) if known else None

    def _hear(self, stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = list(stages or ())
        self._told = None if done else (sum(stage.num_completed_tasks for stage in known), sum(stage.num_tasks for stage in known))
