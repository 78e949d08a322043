"""Arguments as users give them, made into what the rooms below take."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from needlefish.api.session import require_spark
from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.log import Batch
from needlefish.model.schema import Field, Schema, schema_from_arrow, schema_from_text
from needlefish.model.types import is_nested
from needlefish.table.find import Wanted, wanted_keys, wanted_values


def schema_from(given: object) -> Schema:
    """A schema from pyarrow, from Spark or from text."""
    if isinstance(given, pa.Schema):
        return schema_from_arrow(given)
    if isinstance(given, str):
        return schema_from_text(given)
    # Asked by name, so that nobody loads pyspark to create a table from a pyarrow schema.
    if type(given).__name__ == "StructType":
        from needlefish.spark.types import schema_from_spark

        return schema_from_spark(given)  # type: ignore[arg-type]
    raise InvalidError(f'schema is {given!r}; give a pyarrow.Schema, a Spark StructType or a text such as "id string, ts timestamp"')


def check_frame(df: object) -> None:
    """`df` must be a Spark DataFrame, classic or Connect."""
    require_spark()
    from needlefish.spark.names import DataFrame

    if not isinstance(df, DataFrame):
        raise InvalidError(
            f"df is a {type(df).__module__}.{type(df).__name__}; give a Spark DataFrame, for example spark.createDataFrame(...)"
        )


def find_arguments(definition: TableDefinition, keys: object, values: Mapping[str, object]) -> Wanted:
    """What a find looks for, from its one positional argument or its keywords."""
    if keys is None:
        return wanted_values(definition, values)
    if values:
        raise InvalidError(f"find has {keys!r} and {', '.join(values)}; give keys or columns, not both")
    if isinstance(keys, Mapping):
        return wanted_values(definition, keys)
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence):
        raise InvalidError(f"find has {keys!r}; give a list of keys, or name the column: find({definition.key_fields[0].name}=…)")
    return wanted_keys(definition, keys)


def timestamp_ms_from(given: datetime | str | int) -> int:
    """Milliseconds since 1970; a time without a zone is read as UTC."""
    if isinstance(given, bool) or not isinstance(given, datetime | str | int):
        raise InvalidError(f"timestamp is {given!r}; give a datetime, an ISO text or milliseconds since 1970")
    if isinstance(given, int):
        return given
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidError(f"timestamp is {given!r}, which is no ISO time: {error}") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def batch_from(given: object) -> Batch | None:
    """`("etl", 17)`: who delivers, and the number of the delivery."""
    if given is None:
        return None
    if not (isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[0], str) and given[0]):
        raise InvalidError(f"batch is {given!r}; give the application's name and the batch's number, such as ('etl', 17)")
    if isinstance(given[1], bool) or not isinstance(given[1], int):
        raise InvalidError(f"batch has number {given[1]!r}; give a whole number that rises from batch to batch")
    return Batch(application=given[0], number=given[1])


def order_from(given: object, definition: TableDefinition) -> Field | None:
    """The column whose greater value is the newer row."""
    if given is None:
        return None
    if not isinstance(given, str):
        raise InvalidError(f"order_by is {given!r}; give the name of a column, such as 'ts'")
    field = definition.schema.field(given, "order_by")
    if is_nested(field.arrow_type):
        raise InvalidError(f"order_by names column {given!r} of type {field.type}; nested values have no order: choose another")
    return field
