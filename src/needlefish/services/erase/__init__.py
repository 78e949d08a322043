"""Erasure: rows are deleted, the files that hold them rewritten, what names those files rewritten, and what is left of both removed.

Promises: the report says of each place what was looked at, what is gone, what remains and until when. Must not know: Spark.
"""

from needlefish.services.erase.report import ErasureReport, Place
from needlefish.services.erase.run import EraseOptions, erase_rows

__all__ = ["EraseOptions", "ErasureReport", "Place", "erase_rows"]
