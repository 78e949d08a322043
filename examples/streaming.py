"""A folder of Parquet files, as they arrive, into a table: Structured Streaming with `foreachBatch`, each row exactly once.

    python examples/streaming.py INCOMING TABLE CHECKPOINT [--every "10 seconds"]

Without `--every` it takes all files that are there and ends. Kill it whenever you like and start it again: Spark delivers a micro-batch
again that it does not know to be done, and the table knows by its number that it is there.
"""

import argparse
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import needlefish as nf

SCHEMA = "id bigint, ts timestamp, value bigint"
# The table remembers the last epoch under this name. It belongs to the checkpoint: a query with a new checkpoint counts from
# zero again and needs another name, or its first epochs would be taken for repetitions.
QUERY = "readings"


def into(table: nf.Table, query: str) -> Callable[[DataFrame, int], None]:
    """What `foreachBatch` calls: the epoch is the batch's number, and the same for every attempt to deliver it."""

    def upsert(rows: DataFrame, epoch: int) -> None:
        result = table.upsert(rows, order_by="ts", batch=(query, epoch))
        done = "was there already" if result.repeated else f"{result.inserted} inserted, {result.replaced} replaced, {result.late} late"
        print(f"epoch {epoch}: {done}, version {result.version}", flush=True)

    return upsert


def start(spark: SparkSession, incoming: str, table: nf.Table, checkpoint: str, every: str | None = None) -> StreamingQuery:
    """Begins or resumes the query; one file a batch, so that a small example has several."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(incoming)
    writer = rows.writeStream.queryName(QUERY).foreachBatch(into(table, QUERY)).option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)).start()


def opened(uri: str) -> nf.Table:
    """The table, which the first run creates."""
    try:
        return nf.Table.open(uri)
    except nf.NotFoundError:
        return nf.Table.create(uri, SCHEMA, key="id")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("incoming", help="a folder; files must appear in it whole, by a rename")
    parser.add_argument("table")
    parser.add_argument("checkpoint", help="where Spark remembers what it has delivered")
    parser.add_argument("--every", metavar="INTERVAL", help='keep watching the folder, such as "10 seconds"')
    given = parser.parse_args()
    table = opened(given.table)
    start(nf.spark_session(), given.incoming, table, given.checkpoint, given.every).awaitTermination()
    print(f"{table.refresh()!r}, batches {table.describe().batches}")


if __name__ == "__main__":
    main()
