"""`nf.spark_session()` and what goes with it, without loading pyspark until it is called."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from needlefish.errors import UnsupportedError

if TYPE_CHECKING:
    from needlefish.spark.names import SparkSession


def spark_session(master: str | None = None, app: str = "needlefish", config: Mapping[str, str] | None = None) -> "SparkSession":
    """A Spark session: the active one, else the one that `master`, SPARK_REMOTE or SPARK_MASTER names, else a local one of our own.

    `master` may be `local[4]`, `spark://host:7077` or what else Spark takes, or `sc://host:15002` for Spark Connect. Finds or
    brings Java where it is needed.
    """
    require_spark()
    from needlefish.spark.session import spark_session as start

    return start(master, app, config)


def ship(spark: "SparkSession") -> None:
    """Hands this package to all executors of a session on a cluster or over Spark Connect, where it need not be installed."""
    require_spark()
    from needlefish.spark.shipping import ship as hand_over

    hand_over(spark)


def pack(path: str | Path) -> Path:
    """Writes this package as a zip, for `spark-submit --py-files`."""
    require_spark()
    from needlefish.spark.shipping import pack as write

    return write(path)


def require_spark() -> None:
    """A clear word for those who installed only what finding and scanning need."""
    if find_spec("pyspark") is None:
        raise UnsupportedError("this needs Spark, which is not installed; run: pip install 'needlefish[spark]'")
