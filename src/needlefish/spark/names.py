"""Spark's types under names that other rooms may use in annotations; they load this for the type checker alone."""

from pyspark.sql import DataFrame, SparkSession

__all__ = ["DataFrame", "SparkSession"]
