"""Columns by name, whatever signs the name has."""

from pyspark.sql import Column
from pyspark.sql import functions as sf


def named(name: str) -> Column:
    """The column of exactly that name: a dot in it is not a step into a struct."""
    return sf.col("`" + name.replace("`", "``") + "`")
