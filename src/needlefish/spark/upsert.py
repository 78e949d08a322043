"""Upserting a frame."""

from pyspark.sql import DataFrame

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.spark.changes import UpsertJobs
from needlefish.spark.partial import PartialFrameJobs
from needlefish.spark.reachable import check_reachable
from needlefish.spark.types import type_texts
from needlefish.store import RetriedStore
from needlefish.table.conform import check_columns
from needlefish.table.upsert.partial import check_present, upsert_present
from needlefish.table.upsert.result import UpsertResult
from needlefish.table.upsert.run import ChangeOptions, upsert_rows


def upsert_frame(
    frame: DataFrame, state: TableState, store: RetriedStore, options: ChangeOptions, runtime: Runtime = SYSTEM
) -> tuple[TableState, UpsertResult]:
    """Checks the frame's columns, before anything is written, and upserts its rows."""
    check_reachable(store)
    _check(frame, state.definition, options)
    present = [field for field in state.definition.schema.fields if field.name in frame.columns]
    # Rows that lack nothing need nothing of the rows that they replace.
    if options.only_present and len(present) < len(state.definition.schema.fields):
        return upsert_present(store, state, options, present, PartialFrameJobs(frame=frame, store=store), runtime)
    return upsert_rows(store, state, options, UpsertJobs(frame=frame, store=store), runtime)


def _check(frame: DataFrame, definition: TableDefinition, options: ChangeOptions) -> None:
    types = type_texts(frame.schema)
    if options.deleted_by is not None:
        _check_mark(options.deleted_by, types.pop(options.deleted_by, None), definition)
    if options.only_present:
        check_present(types, definition, options.order_by)
    else:
        check_columns(types, definition)


def _check_mark(name: str, kind: str | None, definition: TableDefinition) -> None:
    if kind != "boolean":
        found = "is not there" if kind is None else f"is {kind}"
        raise InvalidError(f"deleted_by names column {name!r} of df, which {found}; name a boolean column")
    if name in definition.schema.names:
        raise InvalidError(f"deleted_by names column {name!r}, which the table has too; rename it in df")
