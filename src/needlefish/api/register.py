"""`nf.register(spark)`: the format "needlefish" in a session that was started elsewhere."""

from typing import TYPE_CHECKING

from needlefish.api.session import require_spark

if TYPE_CHECKING:
    from needlefish.spark.names import SparkSession


def register(spark: "SparkSession") -> None:
    """Makes `spark.read.format("needlefish")` and `df.write.format("needlefish")` known, and lets Spark push filters down."""
    require_spark()
    from needlefish.spark.source.register import register_source

    register_source(spark)
