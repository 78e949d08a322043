"""Changes as streams and batches, and the streaming sink: restarts neither lose nor repeat.

Offsets, limits and refusals are asked for in this process, as Spark's own would; real queries show that Spark asks just so.
"""

import json
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles
from pyspark.sql.types import LongType, StringType, StructField, StructType

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.errors import FencedError, InvalidError
from needlefish.model.log import TableState
from needlefish.services.clean import CleanOptions, clean
from needlefish.spark.source.data_source import NeedlefishSource
from needlefish.spark.source.register import register_source
from needlefish.spark.source.stream_write import EpochWriter, attempt_of, stream_writer
from needlefish.spark.types import schema_to_spark
from needlefish.store import RetriedStore, open_store
from needlefish.table.evolve import Changes, evolve
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.tables import append_rows, build_table, scan_table
from needlefish.timeline import read_newest
from needlefish.timeline.replay import read_entries

SCHEMA = "id int64, host string, n uint32"
SPARK_SCHEMA = "id bigint, host string, n bigint"
SMALL = {"chunkset_rows": 5, "granule_rows": 2}
Row = dict[str, Any]


def rows(numbers: Iterable[int], n: int = 0) -> list[Row]:
    return [{"id": number, "host": "ab"[number % 2], "n": n} for number in numbers]


def source(uri: str, **options: str) -> NeedlefishSource:
    return NeedlefishSource(CaseInsensitiveDict({"path": uri} | options))


@pytest.fixture
def store(uri: str) -> RetriedStore:
    return open_store(StoreConfig(uri=uri))


def history(store: RetriedStore) -> list[TableState]:
    """An append, an upsert and a delete."""
    state = build_table(store, SCHEMA, "id", rows(range(12)), properties=SMALL, partition_by="host")
    states = [state]
    state, _ = upsert_table(store, state, rows(range(10, 14), n=1))
    states.append(state)
    state, _ = delete_table(store, state, rows([3, 11]))
    return [*states, state]


def read(reader: DataSourceStreamReader, start: dict[str, int], end: dict[str, int]) -> list[Row]:
    """As Spark does it: planned here, pickled, read elsewhere."""
    sent = [pickle.loads(pickle.dumps(part)) for part in reader.partitions(start, end)]
    return [row for part in sent for batch in reader.read(part) for row in batch.to_pylist()]  # type: ignore[union-attr]


def told(found: Sequence[Row]) -> list[tuple[Any, ...]]:
    return sorted((row["_version"], row["_change"], row["id"], row["n"]) for row in found)


def expected(store: RetriedStore, first: int | None, *, before: bool = False) -> list[tuple[Any, ...]]:
    return told(nf.Table.open(store.uri).changes(first, before=before).to_pylist())


def test_a_stream_reads_the_changes_of_each_version_once(store: RetriedStore) -> None:
    states = history(store)
    asked = source(store.uri, readChanges="true", maxVersionsPerTrigger="1")
    reader = asked.streamReader(asked.schema())
    assert isinstance(reader.getDefaultReadLimit(), ReadMaxFiles)
    offset, found = reader.initialOffset(), []
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        assert end["version"] == offset["version"] + 1
        found += read(reader, offset, end)
        offset = json.loads(json.dumps(end))
    assert offset == {"version": states[-1].version}
    assert told(found) == expected(store, None)
    assert reader.latestOffset({"version": -1}, ReadAllAvailable()) == offset
    assert told(read(reader, {"version": -1}, offset)) == told(found)
    assert read(reader, offset, offset) == []


def test_the_first_version_is_the_one_that_is_asked_for(store: RetriedStore) -> None:
    states = history(store)
    for starting, after in ((str(states[1].version), states[1].version - 1), ("0", -1), ("latest", states[-1].version)):
        asked = source(store.uri, startingVersion=starting)
        assert asked.streamReader(asked.schema()).initialOffset() == {"version": after}
    asked = source(store.uri, startingVersion="LATEST")
    reader = asked.streamReader(asked.schema())
    offset = reader.initialOffset()
    state = append_rows(store, states[-1], rows([50]))
    end = reader.latestOffset(offset, reader.getDefaultReadLimit())
    assert told(read(reader, offset, end)) == [(state.version, "insert", 50, 0)]


def test_rows_that_were_replaced_come_where_they_are_asked_for(store: RetriedStore) -> None:
    history(store)
    asked = source(store.uri, before="true")
    reader = asked.streamReader(asked.schema())
    found = told(read(reader, reader.initialOffset(), reader.latestOffset({"version": -1}, ReadAllAvailable())))
    assert found == expected(store, None, before=True)
    assert any(change == "update_before" for _, change, _, _ in found)


def test_what_is_there_now_has_an_end(store: RetriedStore) -> None:
    states = history(store)
    asked = source(store.uri, readChanges="true")
    reader = asked.streamReader(asked.schema())
    reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
    append_rows(store, states[-1], rows([50]))
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"version": states[-1].version}
    assert reader.reportLatestOffset() == {"version": read_newest(store).version}


def test_a_stream_of_new_rows_is_refused_where_rows_were_replaced(store: RetriedStore) -> None:
    states = history(store)
    asked = source(store.uri)
    reader = asked.streamReader(asked.schema())
    assert "_change" not in asked.schema().names
    found = read(reader, reader.initialOffset(), {"version": states[0].version})
    assert sorted(row["id"] for row in found) == list(range(12))
    with pytest.raises(InvalidError, match=rf"version {states[1].version} replaced or removed rows.*readChanges"):
        reader.partitions(reader.initialOffset(), {"version": states[1].version})
    plain = source(store.uri, startingVersion="1", readChanges="false")
    assert plain.schema().names == asked.schema().names


def test_a_query_keeps_its_columns_while_the_table_gains_some(store: RetriedStore) -> None:
    states = history(store)
    asked = source(store.uri, startingVersion="latest")
    reader = asked.streamReader(asked.schema())
    offset = reader.initialOffset()
    state = evolve(store, states[-1], Changes(add={"note": "string"}))
    state, _ = upsert_table(store, state, [row | {"note": "x"} for row in rows([1], n=7)])
    assert told(read(reader, offset, {"version": state.version})) == [(state.version, "update", 1, 7)]
    state = evolve(store, state, Changes(rename={"n": "count"}))
    with pytest.raises(InvalidError, match="'n', which the table does not have any more; start the query again"):
        reader.partitions(offset, {"version": state.version})


def test_many_small_shares_are_read_by_few_tasks(store: RetriedStore) -> None:
    state = build_table(store, SCHEMA, "id", rows(range(100)), properties=SMALL, partition_by="bucket(id, 20)")
    asked = source(store.uri, readChanges="true")
    reader = asked.streamReader(asked.schema())
    assert len(reader.partitions({"version": -1}, {"version": state.version})) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingVersion": "soon"}, "startingVersion is 'soon'"),
        ({"startingVersion": "-1"}, "startingVersion is '-1'"),
        ({"maxVersionsPerTrigger": "0"}, "maxVersionsPerTrigger is '0'"),
        ({"readChanges": "yes"}, "readChanges is 'yes'"),
        ({"readChanges": "false", "before": "true"}, "before is true, but readChanges is false"),
        ({"readChanges": "true", "version": "3"}, "option 'version' is '3', which nobody reads"),
    ],
)
def test_options_that_are_wrong(store: RetriedStore, options: dict[str, str], message: str) -> None:
    history(store)
    with pytest.raises(InvalidError, match=message):
        source(store.uri, **options).schema()


def test_ranges_that_are_wrong(store: RetriedStore) -> None:
    states = history(store)
    far = source(store.uri, startingVersion=str(states[-1].version + 2))
    with pytest.raises(InvalidError, match="but the newest version is"):
        far.streamReader(far.schema()).initialOffset()
    ended = source(store.uri, endingVersion=str(states[0].version))
    with pytest.raises(InvalidError, match="a stream has no end"):
        ended.streamReader(ended.schema())
    crossed = source(store.uri, startingVersion=str(states[-1].version), endingVersion=str(states[0].version))
    with pytest.raises(InvalidError, match="give the older version first"):
        crossed.reader(crossed.schema()).partitions()


# All that may go goes, however young it is.
AT_ONCE = CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=0)


def changed(uri: str) -> list[int]:
    """The versions that changed the table."""
    return [entry.version for entry in nf.Table.open(uri).history()]


def steps(uri: str) -> list[tuple[str, str]]:
    """What the log says of writers, oldest first."""
    store = open_store(StoreConfig(uri=uri))
    newest = read_newest(store)
    found = [entry.instant for entry in read_entries(store, newest.oldest, newest.version)][::-1]
    merges = {step.id for step in found if step is not None and step.action == "merge"}
    return [(step.id, step.step) for step in found if step is not None and step.id not in merges]


def writer_of(store: RetriedStore, state: TableState, **options: str) -> EpochWriter:
    asked = CaseInsensitiveDict({"path": store.uri, "application": "readings"} | options)
    found = stream_writer(asked, schema_to_spark(state.definition.schema), False)
    assert isinstance(found, EpochWriter)
    return found


def batches(state: TableState, given: Sequence[Row]) -> Iterator[pa.RecordBatch]:
    return iter(pa.Table.from_pylist(list(given), schema=state.definition.schema.to_arrow()).to_batches(4))


def test_an_epoch_that_comes_again_does_nothing(store: RetriedStore) -> None:
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    for epoch in (0, 1, 1, 0):
        writer = writer_of(store, state)
        messages = [writer.write(batches(state, rows(range(10 * epoch, 10 * epoch + 10)))), None]
        # Spark commits by another writer than the one that wrote, made later.
        writer_of(store, state).commit(pickle.loads(pickle.dumps(messages)), epoch)
    newest = read_newest(store)
    assert sorted(row["id"] for row in scan_table(store, newest)[0].to_pylist()) == list(range(20))
    assert newest.last_batch("readings") == 1


class Told:
    """What Spark tells a task."""

    said: dict[str, str] | None = None

    @classmethod
    def get(cls) -> "Told | None":
        return None if cls.said is None else cls()

    def getLocalProperty(self, name: str) -> str | None:
        return (self.said or {}).get(name)


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setattr("needlefish.spark.source.stream_write.TaskContext", Told)

    def said(query: str = "query", run: str = "run", epoch: int = 0) -> None:
        told = {"sql.streaming.queryId": query, "spark.jobGroup.id": run, "streaming.sql.batchId": str(epoch)}
        monkeypatch.setattr(Told, "said", told)

    return said


def test_a_clean_beside_an_epoch(store: RetriedStore, tell: Callable[..., None]) -> None:
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    tell()
    writer = pickle.loads(pickle.dumps(writer_of(store, state)))
    messages = [writer.write(batches(state, rows(some))) for some in (range(10), range(10, 20), range(0))]
    there = [found.path for found in store.list("data/")]
    clean(store, read_newest(store), AT_ONCE)
    assert [found.path for found in store.list("data/")] == there != []
    writer_of(store, state).commit(pickle.loads(pickle.dumps([*messages, None])), 0)
    assert sorted(row["id"] for row in scan_table(store, read_newest(store))[0].to_pylist()) == list(range(20))
    assert [step for _, step in steps(store.uri)] == ["inflight", "completed"]
    # A copy of a task that begins when all is over.
    with pytest.raises(FencedError):
        writer.write(batches(state, rows(range(10))))
    assert read_newest(store).instants == ()


def test_an_epoch_that_is_aborted(store: RetriedStore, tell: Callable[..., None]) -> None:
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    tell()
    message = writer_of(store, state).write(batches(state, rows(range(10))))
    writer_of(store, state).abort([message, None], 0)
    assert [step for _, step in steps(store.uri)] == ["inflight", "rolled_back"]
    with pytest.raises(FencedError):
        writer_of(store, state).commit([message], 0)
    clean(store, read_newest(store), AT_ONCE)
    assert list(store.list("data/")) == []
    # Where nobody has said anything, nothing can be known.
    writer_of(store, state).abort([None], 0)
    # Spark starts the query again, and the epoch comes in another run.
    tell(run="another")
    message = writer_of(store, state).write(batches(state, rows(range(10))))
    writer_of(store, state).commit([message], 0)
    assert read_newest(store).totals.visible_rows == 10


def test_an_epoch_that_comes_again_in_another_run_ends_without_rows(store: RetriedStore, tell: Callable[..., None]) -> None:
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    for run_id in ("first", "second"):
        tell(run=run_id)
        message = writer_of(store, state).write(batches(state, rows(range(10))))
        writer_of(store, state).commit([message], 0)
    said = steps(store.uri)
    assert [step for _, step in said] == ["inflight", "completed", "inflight", "rolled_back"]
    assert len({attempt for attempt, _ in said}) == 2
    assert read_newest(store).totals.rows == 10


def test_attempts_are_told_apart_by_all_that_names_them() -> None:
    names = [("q", "r", "1", 5), ("q2", "r", "1", 5), ("q", "r2", "1", 5), ("q", "r", "2", 5), ("q", "r", "1", 6), ("q", "r", "15", 0)]
    found = [attempt_of(*name) for name in names]
    assert len(set(found)) == len(names)
    assert all(re.fullmatch("[0-9a-f]{16}", attempt) for attempt in found)
    assert attempt_of(*names[0]) == found[0]


def test_tasks_that_are_told_nothing_announce_nothing(store: RetriedStore) -> None:
    """Their files have ids of 32 digits, which a clean judges by age alone; the commit is an instant all the same."""
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    message = writer_of(store, state).write(batches(state, rows(range(10))))
    assert read_newest(store).version == state.version
    assert {len(found.path.rsplit("/", 1)[-1]) for found in store.list("data/")} == {len("x" * 32 + ".parquet")}
    writer_of(store, state).commit([message], 0)
    assert [step for _, step in steps(store.uri)] == ["inflight", "completed"]
    assert read_newest(store).totals.visible_rows == 10


def test_an_epoch_whose_rows_were_written_under_an_older_version(store: RetriedStore) -> None:
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    writer = writer_of(store, state, operation="upsert", orderBy="n")
    message = writer.write(batches(state, rows(range(4), n=5)))
    # Of the rows that come between, one is newer and one is older.
    upsert_table(store, state, [*rows([1], n=9), *rows([2], n=1)])
    writer_of(store, state, operation="upsert", orderBy="n").commit([message], 0)
    found = scan_table(store, read_newest(store))[0].to_pylist()
    assert {row["id"]: row["n"] for row in found} == {0: 5, 1: 9, 2: 5, 3: 5}


def test_an_epoch_without_a_name_is_refused(store: RetriedStore) -> None:
    state = build_table(store, SCHEMA, "id")
    writer = stream_writer(CaseInsensitiveDict({"path": store.uri}), schema_to_spark(state.definition.schema), False)
    message = writer.write(batches(state, rows([1])))  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="application is not given"):
        writer.commit([message], 0)


def test_a_complete_result_takes_the_place_of_the_one_before(store: RetriedStore) -> None:
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    asked = CaseInsensitiveDict({"path": store.uri, "application": "sums"})
    for epoch, numbers in enumerate((range(5), range(3, 9), range(0))):
        writer = stream_writer(asked, schema_to_spark(state.definition.schema), True)
        message = writer.write(batches(state, rows(numbers, n=epoch)))  # type: ignore[arg-type]
        writer.commit([message], epoch)
        newest = read_newest(store)
        assert sorted(row["id"] for row in scan_table(store, newest)[0].to_pylist()) == list(numbers)
        assert newest.last_batch("sums") == epoch


def test_a_sink_is_made_where_there_is_none(store: RetriedStore) -> None:
    schema = StructType([StructField("id", LongType()), StructField("v", StringType())])
    with pytest.raises(InvalidError, match="key is not given"):
        stream_writer(CaseInsensitiveDict({"path": store.uri}), schema, False)
    for _ in range(2):
        stream_writer(CaseInsensitiveDict({"path": store.uri, "key": "id"}), schema, False)
    assert read_newest(store).definition.key_fields[0].name == "id"
    with pytest.raises(InvalidError, match="but outputMode is complete"):
        stream_writer(CaseInsensitiveDict({"path": store.uri, "operation": "upsert"}), schema, True)


@pytest.fixture
def source_spark(spark: SparkSession) -> SparkSession:
    register_source(spark)
    return spark


# Spark gives the process that it starts for a stream ten seconds to answer, which a busy machine may need to start Python.
ATTEMPTS = 8


def run(df: DataFrame, target: str, checkpoint: Path, form: str = "parquet", **options: str) -> int:
    """Reads what is there and ends; the number of epochs."""
    writer = df.writeStream.format(form).option("checkpointLocation", str(checkpoint)).options(**options)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            writer.outputMode("append").trigger(availableNow=True).start(target).awaitTermination()
            break
        except PySparkException as error:
            if "failed to connect back" not in str(error) or attempt == ATTEMPTS:
                raise
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def test_a_query_that_is_started_again_goes_on(source_spark: SparkSession, store: RetriedStore, tmp_path: Path) -> None:
    states = history(store)
    stream = source_spark.readStream.format("needlefish").option("readChanges", "true").option("maxVersionsPerTrigger", "1").load(store.uri)
    out, checkpoint = str(tmp_path / "out"), tmp_path / "checkpoint"
    epochs = run(stream, out, checkpoint)
    assert epochs > 1
    state = append_rows(store, states[-1], rows([100]))
    assert run(stream, out, checkpoint) > epochs
    found = [row.asDict() for row in source_spark.read.parquet(out).collect()]
    assert told(found) == expected(store, None)
    assert max(row["_version"] for row in found) == state.version
    one = source_spark.read.format("needlefish").option("startingVersion", states[1].version).option("endingVersion", states[2].version)
    batch = one.load(store.uri)
    assert batch.schema.simpleString() == f"struct<{SPARK_SCHEMA.replace(', ', ',').replace(' ', ':')},_change:string,_version:bigint>"
    between = [change for change in expected(store, None) if states[1].version <= change[0] <= states[2].version]
    assert told([row.asDict() for row in batch.collect()]) == between


def test_from_table_to_table_exactly_once(source_spark: SparkSession, store: RetriedStore, tmp_path: Path) -> None:
    """A query dies between the table's commit and Spark's own note of it: the epoch is delivered again, and does nothing."""
    state = build_table(store, SCHEMA, "id", rows(range(20)), properties=SMALL)
    copy, checkpoint = str(tmp_path / "copy"), tmp_path / "checkpoint"
    stream = source_spark.readStream.format("needlefish").load(store.uri)
    options = {"operation": "upsert", "orderBy": "n", "key": "id", "partitionBy": "host"}
    epochs = run(stream, copy, checkpoint, "needlefish", **options)
    before = changed(copy)
    for note in (checkpoint / "commits").glob(f"*{epochs - 1}*"):
        note.unlink()
    assert run(stream, copy, checkpoint, "needlefish", **options) == epochs
    assert changed(copy) == before
    said = steps(copy)
    # The epoch that came again was another attempt, since it was another run, and came to nothing.
    assert [step for _, step in said[-2:]] == ["inflight", "rolled_back"]
    assert said[-1][0] not in [attempt for attempt, _ in said[:-2]]
    append_rows(store, state, rows(range(20, 30)))
    run(stream, copy, checkpoint, "needlefish", **options)
    made = nf.Table.open(copy)
    assert sorted(row["id"] for row in made.scan().to_pylist()) == list(range(30))
    (name,) = made.describe().batches
    assert name == json.loads((checkpoint / "metadata").read_text())["id"]


def test_the_tasks_of_an_epoch_are_one_attempt(source_spark: SparkSession, store: RetriedStore, tmp_path: Path) -> None:
    """As Spark tells its tasks: were it not to, files would bear no attempt's name."""
    state = build_table(store, SCHEMA, "id", rows(range(20)), properties=SMALL)
    copy, checkpoint = str(tmp_path / "copy"), tmp_path / "checkpoint"
    stream = source_spark.readStream.format("needlefish").load(store.uri).repartition(3)
    run(stream, copy, checkpoint, "needlefish", key="id")
    append_rows(store, state, rows(range(20, 40)))
    run(stream, copy, checkpoint, "needlefish", key="id")
    attempts = {attempt for attempt, step in steps(copy) if step == "completed"}
    names = [found.path.rsplit("/", 1)[-1] for found in open_store(StoreConfig(uri=copy)).list("data/")]
    assert len(names) >= 6
    assert {name[:16] for name in names} <= attempts
    assert all(len(name.removesuffix(".parquet")) == 48 for name in names)
    assert len({name[:16] for name in names}) >= 2
    assert {step for _, step in steps(copy)} == {"inflight", "completed"}
    assert nf.Table.open(copy).scan().count() == 40


def test_a_task_that_fails_leaves_nothing_of_its_epoch(source_spark: SparkSession, store: RetriedStore, tmp_path: Path) -> None:
    build_table(store, SCHEMA, "id", rows(range(20)), properties=SMALL)
    copy, checkpoint, mark = str(tmp_path / "copy"), tmp_path / "checkpoint", tmp_path / "broken"
    mark.touch()

    def broken(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in found:
            yield batch
            if mark.exists():
                raise RuntimeError("broken on purpose")

    stream = source_spark.readStream.format("needlefish").load(store.uri).mapInArrow(broken, SPARK_SCHEMA)
    with pytest.raises(PySparkException, match="broken on purpose"):
        run(stream, copy, checkpoint, "needlefish", key="id")
    assert nf.Table.open(copy).scan().count() == 0
    mark.unlink()
    run(stream, copy, checkpoint, "needlefish", key="id")
    assert nf.Table.open(copy).scan().count() == 20
