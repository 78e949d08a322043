"""Scenes in which everything has happened: versions, the same rows in Spark, plain files."""

from needlefish.api import Table
from needlefish.cli.demo.file_tree import file_tree
from needlefish.cli.demo.stage import Facts, Stage, Step
from needlefish.cli.history import history_table
from needlefish.cli.progress import shown
from needlefish.cli.row_table import print_rows


def _history(stage: Stage) -> Facts:
    stage.command(f"needlefish history {stage.uri}")
    entries = stage.table.history()
    grid = history_table(entries)
    # All are of the same writer, and the rest then fits into the demo's width.
    grid.columns.pop()
    stage.console.print(grid)
    if any(entry.prev_max is not None for entry in entries):
        stage.say(
            "[bold]hidden[/] are rows that were replaced, deleted or late; [bold]compared with[/] is the version that keys were looked for in."
        )
    return {"versions": len(entries)}


def _time_travel(stage: Stage) -> Facts:
    first = stage.first_delivery
    stage.command(f"needlefish scan {stage.uri} --count --version {first}")
    before, now = Table.open(stage.uri, version=first).scan(columns=["ts"]).count(), stage.table.scan(columns=["ts"]).count()
    stage.console.print(f"version {first}: {before:,} rows    version {stage.table.version}: {now:,} rows")
    stage.say("Files are never changed, so that a version is just a set of them, and of rows in them that are hidden.")
    return {"rows_before": before, "rows_now": now}


def _through_spark(stage: Stage) -> Facts:
    query = "select host, count(*) as requests, count_if(status = 503) as errors, round(percentile(latency_ms, 0.95), 1) as p95_ms from requests group by host order by host"
    stage.python('table.to_spark(spark).createOrReplaceTempView("requests")')
    stage.python(f'spark.sql("{query}")')
    with shown("asking Spark", stage.spark, quiet=stage.quiet):
        stage.table.to_spark(stage.spark).createOrReplaceTempView("requests")
        rows = stage.spark.sql(query).toArrow()
    # The session may be the caller's own.
    stage.spark.catalog.dropTempView("requests")
    print_rows(stage.console, rows)
    return {"requests": sum(rows["requests"].to_pylist())}


def _files(stage: Stage) -> Facts:
    tree, files = file_tree(stage.uri)
    stage.console.print(tree)
    stage.say(
        "Any tool that reads Parquet can read [bold]data/[/]; the names and sizes come from [bold]_needlefish/[/], never from listing."
    )
    return {"files": files}


LOOK_BACK_STEPS = (
    Step(title="How it came to be", text="Every commit is a version, and every version can be read.", run=_history),
    Step(title="As it was before", text="The first delivery had three days.", run=_time_travel),
    Step(title="The same rows in Spark", text="A DataFrame of the same version, for everything that SQL can do.", run=_through_spark),
    Step(title="On disk", text="Plain files: data by partition, and what the table knows of them.", run=_files),
)
