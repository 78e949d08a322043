"""What users hold: thin, delegating, and the only room that knows both the embedded and the Spark side.

Promises: the names in the documentation; every argument checked before anything is written.
"""

from needlefish.api.found import Found
from needlefish.api.scan import Scan
from needlefish.api.session import spark_session
from needlefish.api.table import Table
from needlefish.table.point.declare import PointIndex

__all__ = ["Found", "PointIndex", "Scan", "Table", "spark_session"]
