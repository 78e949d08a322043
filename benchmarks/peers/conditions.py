"""Questions as SQL conditions, and what is left to do where a key has several columns."""

from collections.abc import Sequence

import pyarrow as pa

from benchmarks.workloads.base import Key


def equals(columns: Sequence[str], keys: Sequence[Key]) -> str:
    """One key exactly; of several keys, a list for the first column, which is nearly unique. `only` does the rest."""
    if len(keys) == 1:
        return " and ".join(f"{column} = {literal(part)}" for column, part in zip(columns, keys[0], strict=True))
    return among(columns[0], [key[0] for key in keys])


def among(column: str, values: Sequence[object]) -> str:
    if len(values) == 1:
        return f"{column} = {literal(values[0])}"
    return f"{column} in ({', '.join(map(literal, dict.fromkeys(values)))})"


def literal(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def only(rows: pa.Table, columns: Sequence[str], keys: Sequence[Key]) -> pa.Table:
    """The rows with exactly these keys, of those with these first columns."""
    if len(columns) == 1 or len(keys) == 1:
        return rows
    wanted = pa.table(
        {column: pa.array([key[place] for key in keys], rows.schema.field(column).type) for place, column in enumerate(columns)}
    )
    return rows.join(wanted, keys=list(columns), join_type="left semi")
