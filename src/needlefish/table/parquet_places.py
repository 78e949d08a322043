"""Where a Parquet file keeps the columns of ours."""

from collections import Counter

import pyarrow.parquet as pq


def column_places(schema: pq.ParquetSchema) -> dict[str, int]:
    """The number of the Parquet column that stands for a column of ours, by name.

    `a.b` may be a column of that name or a part of a struct `a`: when both are there, neither is told apart.
    """
    paths = [schema.column(number).path for number in range(len(schema))]
    counts = Counter(paths)
    return {path: number for number, path in enumerate(paths) if counts[path] == 1}
