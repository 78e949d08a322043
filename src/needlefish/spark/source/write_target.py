"""The table that a write goes to: there already, or to be made from the frame's columns and the options."""

from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from needlefish.errors import AlreadyExistsError, InvalidError, NotFoundError
from needlefish.model.definition import TableDefinition
from needlefish.model.instant import AttemptId
from needlefish.model.log import TableState
from needlefish.model.schema import Field
from needlefish.model.types import is_nested
from needlefish.spark.reachable import check_reachable
from needlefish.spark.source.write_options import WriteOptions
from needlefish.spark.types import schema_from_spark, type_texts
from needlefish.store import RetriedStore, open_store
from needlefish.table.conform import check_columns
from needlefish.table.create import create_table, define_table
from needlefish.table.delivered import Delivery, DeliveryTask
from needlefish.table.partition import parse_partition_by
from needlefish.table.point.runs import indexed_keys
from needlefish.timeline import read_newest
from needlefish.timeline.detached import Detached


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`state` is None where the table has yet to be made."""

    definition: TableDefinition
    state: TableState | None
    delivery: Delivery
    task: DeliveryTask

    def detached(self, attempt: str) -> Detached:
        return Detached(attempt=AttemptId(attempt), action=self.delivery.action, base=self.task.version)

    def attempted(self, attempt: str) -> DeliveryTask:
        """The task as part of an attempt."""
        return replace(self.task, detached=self.detached(attempt))


def find_target(store: RetriedStore, options: WriteOptions, schema: StructType) -> Target:
    """Checks the frame's columns and all options against the table, before a row is touched."""
    check_reachable(store)
    state = _newest(store)
    definition = _defined(options, schema) if state is None else _agreed(state.definition, options)
    check_columns(type_texts(schema), definition)
    delivery = Delivery(operation=options.operation, order_by=_order(options, definition), batch=options.batch)
    task = DeliveryTask(
        definition=definition,
        store=store.config,
        version=0 if state is None else state.version,
        indexed_keys={} if state is None else indexed_keys(state),
        keeps_last=delivery.keeps_last,
        order_by=None if delivery.order_by is None else delivery.order_by.id,
        has_log=state is not None,
    )
    return Target(definition=definition, state=state, delivery=delivery, task=task)


def open_or_create(options: WriteOptions, schema: StructType) -> RetriedStore:
    """The store, with a table in it."""
    store = open_store(options.store)
    check_reachable(store)
    if _newest(store) is None:
        try:
            create_table(store, _defined(options, schema))
        except AlreadyExistsError:
            # Somebody else has made it meanwhile; whether it fits is looked at next.
            return store
    return store


def _newest(store: RetriedStore) -> TableState | None:
    try:
        return read_newest(store)
    except NotFoundError:
        return None


def _defined(options: WriteOptions, schema: StructType) -> TableDefinition:
    if not options.key:
        raise InvalidError(
            f"path is {options.store.uri!r}, where there is no table, and key is not given; check the path, or name the columns that identify a row: option('key', 'id')"
        )
    return define_table(schema_from_spark(schema), options.key, options.partition_by, {}, indexes=None)


def _agreed(definition: TableDefinition, options: WriteOptions) -> TableDefinition:
    """Options that say how to make a table may be said again, not otherwise."""
    key = tuple(field.name for field in definition.key_fields)
    if options.key and options.key != key:
        raise InvalidError(
            f"key is {', '.join(options.key)!r}, but the table's is {', '.join(key)!r}; leave it out, or choose another path"
        )
    if options.partition_by and parse_partition_by(options.partition_by, definition.schema) != definition.partition_by:
        raise InvalidError(
            f"partitionBy is {', '.join(options.partition_by)!r}, but the table is partitioned otherwise; leave it out, or choose another path"
        )
    return definition


def _order(options: WriteOptions, definition: TableDefinition) -> Field | None:
    if options.order_by is None:
        return None
    field = definition.schema.field(options.order_by, "orderBy")
    if is_nested(field.arrow_type):
        raise InvalidError(f"orderBy names column {field.name!r} of type {field.type}; nested values have no order: choose another")
    return field
