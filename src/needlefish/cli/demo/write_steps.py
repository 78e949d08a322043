"""Scenes in which the table comes to be."""

from dataclasses import asdict

from needlefish.api import Table
from needlefish.cli.append import appended
from needlefish.cli.demo.requests import SCHEMA, Batch, batches, requests
from needlefish.cli.demo.stage import Facts, Stage, Step
from needlefish.cli.describe import description
from needlefish.cli.human import counted
from needlefish.cli.progress import shown

# Far below what a real table has, so that a small one has something to leave out: 20 files rather than 6.
_PROPERTIES = {"chunkset_rows": 10_000, "granule_rows": 2_000}


def _create(stage: Stage) -> Facts:
    stage.python('table = nf.Table.create(uri, "request_id string, ts timestamp, …", key="request_id", partition_by=["day(ts)"])')
    stage.made = Table.create(stage.uri, SCHEMA, key="request_id", partition_by=["day(ts)"], properties=_PROPERTIES)
    return {"version": stage.table.version}


def _append_first(stage: Stage) -> Facts:
    return _append(stage, batches(stage.rows)[0])


def _append_second(stage: Stage) -> Facts:
    return _append(stage, batches(stage.rows)[1])


def _append(stage: Stage, batch: Batch) -> Facts:
    stage.python("table.append(df)")
    with shown(f"appending {counted(batch.last - batch.first, 'row')}", stage.spark, quiet=stage.quiet):
        result = stage.table.append(requests(stage.spark, batch, stage.rows))
    stage.console.print(appended(result), style="green")
    return asdict(result)


def _describe(stage: Stage) -> Facts:
    stage.command(f"needlefish describe {stage.uri}")
    found = stage.table.describe()
    stage.console.print(description(found))
    return {"rows": found.rows, "files": found.files, "bytes": found.bytes}


WRITE_STEPS = (
    Step(
        title="An empty table",
        text="Rows are identified by request_id and live in the partition of their day, computed from ts.",
        run=_create,
    ),
    Step(
        title="Three days of requests",
        text="Spark routes each row to its day, sorts by key and writes Parquet; one log entry makes all of it visible at once.",
        run=_append_first,
    ),
    Step(
        title="Two more days", text="With some requests of the third day that arrived late: they join their partition.", run=_append_second
    ),
    Step(
        title="What there is now",
        text="All of this comes from the log: no directory was listed and no data file opened.",
        run=_describe,
    ),
)
