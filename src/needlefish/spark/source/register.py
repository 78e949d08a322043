"""Making the data source known to a session, classic or Connect."""

from pyspark.sql import SparkSession

from needlefish.spark.source.data_source import NeedlefishSource

# Without it Spark refuses to read from any Python source that takes filters.
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register_source(spark: SparkSession) -> None:
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(NeedlefishSource)
