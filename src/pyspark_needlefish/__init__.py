"""Spark looks for data sources in modules whose names begin with `pyspark_`: this one makes `format("needlefish")` known."""

from needlefish.spark.source.data_source import NeedlefishSource as DefaultSource

__all__ = ["DefaultSource"]
