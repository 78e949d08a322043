"""What users hold: thin, delegating, and the only room that knows both the embedded and the Spark side.

Promises: the names in the documentation; every argument checked before anything is written.
"""

from needlefish.api.found import Found
from needlefish.api.register import register
from needlefish.api.scan import Scan
from needlefish.api.session import pack, ship, spark_session
from needlefish.api.table import Table
from needlefish.table.point.declare import PointIndex

__all__ = ["Found", "PointIndex", "Scan", "Table", "pack", "register", "ship", "spark_session"]
