"""`nf.Table`: a keyed table of plain Parquet files, at one version."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from needlefish.api.arguments import batch_from, check_frame, find_arguments, order_from, schema_from, timestamp_ms_from
from needlefish.api.changes import ChangedRows, changes_of
from needlefish.api.describe import Description, describe
from needlefish.api.found import Found
from needlefish.api.plans import Plans
from needlefish.api.scan import Scan
from needlefish.api.services import PLANNED, Result, check_kind, execute_service, run_unplanned, schedule_service
from needlefish.api.session import require_spark, spark_session
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM
from needlefish.services.build_index import IndexResult, drop_index
from needlefish.services.clean import CleanOptions, CleanResult, clean
from needlefish.services.erase import EraseOptions, ErasureReport
from needlefish.services.execute import ServiceResult
from needlefish.services.merge import tidy
from needlefish.services.rebuild import RebuildResult, kind_from
from needlefish.services.status import read_status
from needlefish.services.upkeep import CancelResult, cancel_plan
from needlefish.store import RetriedStore, open_store
from needlefish.table.advise import Advice, advise
from needlefish.table.create import create_table, define_table
from needlefish.table.evolve import Changes, evolve
from needlefish.table.find import find_rows
from needlefish.table.history import HistoryEntry, read_history
from needlefish.table.point.declare import PointIndex, define_index, index_named
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import RunReaders, Snapshot
from needlefish.table.source import Explanation, explain_source
from needlefish.table.upsert.result import DeleteResult, UpsertResult
from needlefish.table.upsert.run import ChangeOptions
from needlefish.table.verify import Verification, verify_table
from needlefish.timeline import catch_up, read_newest, read_state_at, version_at_time

if TYPE_CHECKING:
    from needlefish.spark.append import AppendResult
    from needlefish.spark.names import DataFrame, SparkSession


class Table:
    """A handle on one version of a table.

    It stays on that version until `refresh()` or a write of its own. Handles are cheap; threads may share one to read.
    """

    def __init__(self, store: RetriedStore, state: TableState) -> None:
        """Use `Table.create` or `Table.open`."""
        self._store = store
        self._state = state
        self._readers = RunReaders()
        # Seconds that indexes took which this handle built.
        self._built: dict[str, float] = {}

    @classmethod
    def create(
        cls,
        uri: str,
        schema: "pa.Schema | str | object",
        key: str | Sequence[str],
        partition_by: str | Sequence[str] = (),
        *,
        indexes: Sequence[PointIndex] | None = None,
        bloom_columns: str | Sequence[str] = (),
        properties: Mapping[str, object] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> "Table":
        """Makes an empty table at `uri`.

        `schema` is a pyarrow schema, a Spark StructType or a text (`"id string, ts timestamp"`). `key` names the columns
        that identify a row inside its partition (inside the whole table with the property `global_keys`). `partition_by`
        takes columns and computed columns (`"day(ts)"`). `indexes` are point indexes, `[nf.PointIndex("user_id")]`; the row
        key has one besides, unless the list is empty. `bloom_columns` have Bloom filters besides the key.
        """
        columns = schema_from(schema)
        definition = define_table(columns, key, partition_by, properties or {}, bloom_columns=bloom_columns, indexes=indexes)
        store = _open(uri, storage_options)
        return cls(store, create_table(store, definition))

    @classmethod
    def open(
        cls,
        uri: str,
        version: int | None = None,
        *,
        timestamp: datetime | str | int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> "Table":
        """Opens the newest version, the one with the given number, or the last one committed at or before a time."""
        if version is not None and timestamp is not None:
            raise InvalidError(f"version is {version} and timestamp is {timestamp!r}; give one of them")
        store = _open(uri, storage_options)
        newest = read_newest(store)
        if timestamp is not None:
            version = version_at_time(store, timestamp_ms_from(timestamp), newest)
        return cls(store, newest if version is None else read_state_at(store, version, newest))

    @classmethod
    def adopt(
        cls,
        uri: str,
        key: str | Sequence[str],
        partition_by: str | Sequence[str] = (),
        *,
        schema: "pa.Schema | str | object | None" = None,
        indexes: Sequence[PointIndex] | None = None,
        bloom_columns: str | Sequence[str] = (),
        properties: Mapping[str, object] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> "Table":
        """Makes the directory of Parquet files at `uri` a table, on Spark, without rewriting or moving a file.

        Names that begin with `_` or `.` are left out; all else must be Parquet. The columns are the first file's unless
        `schema` gives wider ones; folders such as `day=2026-11-01` add columns, which `partition_by` must then name. Each
        file must lie in one partition, and no key may occur twice in one.
        """
        store = _open(uri, storage_options)
        require_spark()
        from needlefish.spark.adopt import Adoption, adopt_files

        wanted = Adoption(
            schema=None if schema is None else schema_from(schema),
            key=key,
            partition_by=partition_by,
            bloom_columns=bloom_columns,
            indexes=indexes,
            properties=properties or {},
        )
        return cls(store, adopt_files(spark_session(), store, wanted))

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def version(self) -> int:
        return self._state.version

    @property
    def schema(self) -> pa.Schema:
        return self._state.definition.schema.to_arrow()

    def refresh(self) -> "Table":
        """Moves the handle to the newest version."""
        self._state = catch_up(self._store, self._state) or self._state
        return self

    def append(self, df: "DataFrame") -> "AppendResult":
        """Adds rows that are known to be new, from a Spark DataFrame, as one version.

        Refused before anything becomes visible: nulls in key columns, duplicate keys inside `df`, columns or types
        that do not fit. Columns that `df` lacks and that may be null are filled with nulls.
        """
        check_frame(df)
        from needlefish.spark.append import append_frame

        self._state, result = append_frame(df, self._state, self._store)
        self._state = tidy(self._store, self._state)
        return result

    def upsert(
        self,
        df: "DataFrame",
        order_by: str | None = None,
        batch: tuple[str, int] | None = None,
        *,
        deleted_by: str | None = None,
        columns: str = "all",
    ) -> UpsertResult:
        """Inserts rows with new keys and replaces rows with known ones, from a Spark DataFrame, as one version.

        Of rows with the same key the one with the greatest `order_by` counts, in `df`, in the table and against other
        writers; of equal ones, or without `order_by`, the last in `df` and the later commit. `batch=("etl", 17)` makes a replay
        harmless: a number not above the last one of the application does nothing. Rows where the boolean column
        `deleted_by` of `df` is true are deleted instead. A key lives in its partition; with the property `global_keys` its row moves.

        `columns="present"` keeps the columns that `df` lacks as they are in the rows that it replaces; new rows have nulls there.
        `df` then needs the key columns and, unless keys are global, those that the partition is computed from.
        """
        check_frame(df)
        from needlefish.spark.upsert import upsert_frame

        self.refresh()
        options = ChangeOptions(
            order_by=order_from(order_by, self._state.definition),
            batch=batch_from(batch),
            deleted_by=deleted_by,
            only_present=_only_present(columns),
        )
        self._state, result = upsert_frame(df, self._state, self._store, options)
        self._state = tidy(self._store, self._state)
        return result

    def delete(self, df: "DataFrame | None" = None, *, where: str | None = None, batch: tuple[str, int] | None = None) -> DeleteResult:
        """Deletes rows by key, from a Spark DataFrame of keys, or by a SQL condition, as one version; writes no data file.

        `df` needs the key columns, and those that the partition is computed from unless keys are global; others are ignored.
        Keys that have no row are counted, not refused.
        """
        if (df is None) == (where is None):
            raise InvalidError("delete takes either a DataFrame of keys or where='…'; give exactly one of them")
        options = ChangeOptions(batch=batch_from(batch))
        self.refresh()
        if df is not None:
            check_frame(df)
            from needlefish.spark.delete import delete_keys

            self._state, result = delete_keys(df, self._state, self._store, options)
        else:
            require_spark()
            from needlefish.spark.delete import delete_where

            self._state, result = delete_where(spark_session(), self._state, self._store, str(where), options)
        self._state = tidy(self._store, self._state)
        return result

    def evolve(
        self,
        *,
        add: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        widen: Mapping[str, str] | None = None,
        reorder: Sequence[str] = (),
    ) -> "Table":
        """Changes the columns as one version, without touching a file, and moves the handle there.

        `add={"note": "string"}` adds columns that may be null; `drop=["x"]` takes columns away for good: one that is added
        later under the same name begins empty; `rename={"old": "new"}`; `widen={"n": "int64"}` (integers, float to double,
        decimals to more digits); `reorder=["b", "a"]` names the columns that come first.
        """
        changes = Changes(
            add={} if add is None else add,
            drop=drop,
            rename={} if rename is None else rename,
            widen={} if widen is None else widen,
            reorder=reorder,
        )
        self._state = evolve(self._store, self._state, changes)
        return self

    def tag(self, df: "DataFrame") -> "DataFrame":
        """`df` with `chunkset`, `row` and `partition`: where each key's row lives in this version, null where there is none.

        `df` needs the key columns, and those that the partition is computed from: only the row's own partition counts,
        unless the table has the property `global_keys`. Other columns pass through. Like any frame the result is computed
        when Spark is asked for it; a null in a key column is refused then.
        """
        check_frame(df)
        from needlefish.spark.tag import tag_frame

        return tag_frame(df, self._state, self._store)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        partitions: Mapping[str, object] | None = None,
        key_range: object = None,
    ) -> Scan:
        """Rows of this version, without Spark.

        `where` is a SQL condition (`"status >= 500 and host = 'a'"`); `partitions` picks partitions by their own values
        (`{"day": "2026-11-01"}`, or a list of values); `key_range` is `(first, last)`, both included, None for open.
        """
        store = self._store.apart()
        request = ScanRequest(columns=columns, where=where, partitions=partitions, key_range=key_range)
        return Scan(plan_scan(Snapshot(store=store, state=self._state, readers=self._readers), request), store.meter)

    def explain(self, where: str | None = None, partitions: Mapping[str, object] | None = None) -> Explanation:
        """Which files a read of the format "needlefish" opens for a condition, and what ruled out the others; reads no data.

        `print(table.explain(where="request_id = '4bf9'"))`; the arguments are those of `scan`.
        """
        store = self._store.apart()
        return explain_source(Snapshot(store=store, state=self._state, readers=self._readers), where, partitions, store.meter)

    def changes(self, from_version: int | None, to_version: int | None = None, *, before: bool = False) -> ChangedRows:
        """Rows that were added, replaced or removed after `from_version`, up to `to_version` (None: this one), without Spark.

        The columns of `to_version` and two more: `_change` (`insert`, `update`, `delete`) and `_version`, which says which
        version did it. An update is the new row; `before=True` gives the row that it replaced as well, as `update_before`.
        Taken over the rows of `from_version` (None: over no rows), they give those of `to_version`.
        """
        return changes_of(self._store.apart(), self._state, from_version, to_version, before=before)

    def find(
        self, keys: "Sequence[object] | Mapping[str, object] | None" = None, /, *, columns: Sequence[str] | None = None, **values: object
    ) -> Found:
        """Rows by value, without Spark: `find(request_id="4bf9…")`, `find(user_id=[7, 8])`, `find([("a", 1), ("b", 2)])`.

        One column with one or up to 100,000 values, or one value for each of several columns, which must all hold.
        Positionally: a list of whole row keys, or a mapping for columns whose names are no Python words.
        """
        store = self._store.apart()
        definition = self._state.definition
        wanted = find_arguments(definition, keys, values)
        asked = definition.schema.fields if columns is None else tuple(definition.schema.field(name, "columns") for name in columns)
        snapshot = Snapshot(store=store, state=self._state, readers=self._readers)
        return Found(*find_rows(snapshot, wanted, asked, store.meter))

    def to_spark(self, spark: "SparkSession") -> "DataFrame":
        """A Spark DataFrame of this version."""
        from needlefish.spark.frame import table_frame

        return table_frame(spark, Snapshot(store=self._store, state=self._state, readers=self._readers), self._store.config)

    def verify(self, *, data: bool = True) -> Verification:
        """Compares all that this version says of itself with what is there, without Spark: log, runs, files, rows.

        Damage never raises: each becomes a problem that names its object and the remedy. `data=False` reads no rows.
        """
        return verify_table(Snapshot(store=self._store.apart(), state=self._state), data=data)

    def create_index(self, index: PointIndex) -> IndexResult:
        """Adds a point index to a table with rows, on Spark; writers and finders go on meanwhile."""
        require_spark()
        from needlefish.spark.index import index_table

        self.refresh()
        definition = self._state.definition
        declared = define_index(index, definition.schema, definition.properties)
        if declared in definition.point_indexes:
            raise InvalidError(f"the table has the point index {declared.name!r} already; rebuild('index/{declared.name}') makes it anew")
        self._state, result = index_table(spark_session(), self._state, self._store, declared)
        self._built[result.index] = result.seconds
        return result

    def advise(self, columns: str | Sequence[str]) -> Advice:
        """What point indexes on a column, or on several together, would cost and save: `print(table.advise("user_id"))`.

        Predicted from a sample of granules, for each kind and width; an index that is there already is measured beside.
        """
        store = self._store.apart()
        return advise(Snapshot(store=store, state=self._state, readers=self._readers), store, columns, self._built)

    def drop_index(self, name: str) -> "Table":
        """Forgets a point index. Finds go on without it."""
        self.refresh()
        self._state = drop_index(self._store, self._state, index_named(self._state.definition, name).name)
        return self

    def rebuild(self, kind: str, partitions: Mapping[str, object] | None = None) -> RebuildResult:
        """Makes the runs of one kind anew from the data files, on Spark: `files`, `column_stats`, `bloom_filters`, `index/NAME`.

        Damaged runs may be among those that it replaces. With `partitions` (as `scan` takes them) only those are made
        anew. The result names what could not be recovered.
        """
        self.refresh()
        checked = kind_from(kind, self._state.definition)
        require_spark()
        from needlefish.spark.rebuild import rebuild_runs

        self._state, result = rebuild_runs(spark_session(), self._state, self._store, checked, partitions)
        return result

    def schedule(self, kind: str, cancellable: bool = True, **options: object) -> str | None:
        """Plans a service for anybody to execute and returns the plan's id, or None if nothing is worth it.

        `"compaction"` folds hidden rows away and merges small files: by policy (`hidden_share`, `small_share`, `least_files`,
        `most_bytes`), or all that `partitions` and `where` choose, as `scan` takes them. `"clustering"` sorts rows anew `by=[…]`,
        one column after the other or with `zorder=True` all at once, into files of `target_bytes`; `partitions` and `where` as well.

        Writers go on beside a cancellable plan, and the first that touches its files ends it. An immutable one (`cancellable=False`)
        stands until it was executed: writers that would touch its files are refused.
        """
        self.refresh()
        self._state, plan_id = schedule_service(self._store, self._state, self._readers, kind, options, cancellable=cancellable)
        return plan_id

    def execute(self, plan_id: str) -> ServiceResult:
        """Executes a plan, here if it reads little and else on Spark; what came of it if another worker completed it first.

        A failed attempt is rolled back: an immutable plan can be executed again, a cancellable one is over.
        """
        self._state, result = execute_service(self._store, self._state, plan_id)
        self._state = tidy(self._store, self._state)
        return result

    def run(self, kind: str, cancellable: bool = True, **options: object) -> Result | None:
        """Does a service at once: `compaction` and `clustering` as `schedule` and `execute` would (None if nothing is worth it),
        `merge` of index and metadata runs, `rollback` of all that dead workers left, `clean`.
        """
        if check_kind(kind) in PLANNED:
            plan_id = self.schedule(kind, cancellable, **options)
            return None if plan_id is None else self.execute(plan_id)
        self.refresh()
        self._state, result = run_unplanned(self._store, self._state, kind, options)
        return result

    def clean(
        self,
        dry_run: bool = False,
        *,
        retained_versions: int | None = None,
        retained_seconds: float | None = None,
        grace_seconds: float | None = None,
    ) -> CleanResult:
        """Removes what no readable version needs, and what dead work left; `print(table.clean(dry_run=True))` says what and why.

        A version stays readable while it is one of the last `retained_versions` or younger than `retained_seconds`, and nothing
        goes that a reader within the last `grace_seconds` may need; what is absent is the table's property of the same name.
        """
        self.refresh()
        options = CleanOptions(
            dry_run=dry_run, retained_versions=retained_versions, retained_seconds=retained_seconds, grace_seconds=grace_seconds
        )
        self._state, result = clean(self._store, self._state, options)
        return result

    def erase(self, df: "DataFrame", expire: bool = False, *, grace_seconds: float | None = None) -> ErasureReport:
        """Deletes rows by key and removes their values from storage; `print` of the report says what is proved gone, place by place.

        `df` is as `delete` takes it. Files and runs that hold the rows, hidden ones too, are written anew without them. Older versions
        still hold them until retention lets these go, and the report says until when; `expire=True` gives up all older versions at
        once, except that readers get `grace_seconds`.
        """
        check_frame(df)
        from needlefish.spark.erase import erase_keys

        self.refresh()
        self._state, report = erase_keys(df, self._state, self._store, EraseOptions(expire=expire, grace_seconds=grace_seconds))
        return report

    def plans(self, ended: int = 0) -> Plans:
        """What is going on in the table: plans that wait, and work of writers and services; `print(table.plans())`.

        With `ended` also what ended in that many of the newest versions.
        """
        # The handle stays where it is: what is going on is the same whatever version it reads.
        newest = catch_up(self._store, self._state) or self._state
        return Plans(read_status(self._store, newest, ended=ended))

    def cancel(self, plan_id: str, *, force: bool = False) -> CancelResult:
        """Asks a plan to stop: from now on it cannot commit. Immutable ones only with `force`.

        If nobody executes it, it is over at once; otherwise its worker stops when it next looks, and undoes what it did.
        """
        self._state, result = cancel_plan(self._store, self._state, plan_id, force=force)
        return result

    def history(self, limit: int | None = None, *, steps: bool = False) -> list[HistoryEntry]:
        """The versions up to this one that changed the table, newest first.

        With `steps` those between as well: who asked for work, began it, or gave it up.
        """
        return read_history(self._store, self._state, limit, steps=steps)

    def describe(self) -> Description:
        """What the table is and how much is in it."""
        return describe(self.uri, self._state)

    def __repr__(self) -> str:
        return f"Table({self.uri!r}, version={self.version}, rows={self._state.totals.visible_rows})"


def _only_present(columns: object) -> bool:
    if columns not in ("all", "present"):
        raise InvalidError(f"columns is {columns!r}; give 'all', or 'present' to keep the columns that df lacks")
    return columns == "present"


def _open(uri: str, options: Mapping[str, str] | None) -> RetriedStore:
    if not isinstance(uri, str) or not uri:
        raise InvalidError(f"uri is {uri!r}; give a path or an address such as s3://bucket/table")
    return open_store(StoreConfig(uri=uri, options=dict(options or {})), SYSTEM)
