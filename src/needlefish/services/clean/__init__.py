"""Cleaning: what no readable version needs goes, and what dead work left behind.

Promises: never anything that a readable version, a live instant or a reader within the grace period needs; whatever is left by a
crash, the next clean removes. Must not know: Spark, and what rows mean.
"""

from needlefish.services.clean.options import CleanOptions
from needlefish.services.clean.result import CleanResult, Removed
from needlefish.services.clean.run import clean

__all__ = ["CleanOptions", "CleanResult", "Removed", "clean"]
