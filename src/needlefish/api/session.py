"""`nf.spark_session()`, without loading pyspark until it is called."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from needlefish.errors import UnsupportedError

if TYPE_CHECKING:
    from needlefish.spark.names import SparkSession


def spark_session(master: str | None = None, app: str = "needlefish", config: Mapping[str, str] | None = None) -> "SparkSession":
    """A Spark session: the active one, SPARK_REMOTE's, or a local one of our own; finds or brings Java."""
    require_spark()
    from needlefish.spark.session import spark_session as start

    return start(master, app, config)


def require_spark() -> None:
    """A clear word for those who installed only what finding and scanning need."""
    if find_spec("pyspark") is None:
        raise UnsupportedError("this needs Spark, which is not installed; run: pip install 'needlefish[spark]'")
