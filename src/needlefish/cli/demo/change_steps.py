"""Scenes in which rows are replaced and deleted, while no file changes."""

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from needlefish.cli.change_text import deleted, upserted
from needlefish.cli.demo.requests import corrections, request_id
from needlefish.cli.demo.stage import Facts, Stage, Step
from needlefish.cli.human import bytes_text, counted
from needlefish.cli.progress import shown
from needlefish.cli.row_table import print_rows

_COLUMNS = ["request_id", "ts", "host", "path", "status", "latency_ms"]
_BATCH = ("retries", 1)
# Asks often enough to be seen, and not so often that little is left.
_FORGOTTEN_USER = 9


def _upsert(stage: Stage) -> Facts:
    print_rows(stage.console, _two(stage))
    stage.console.print()
    stage.python('table.upsert(df, order_by="ts", batch=("retries", 1))')
    frame = corrections(stage.spark, stage.rows)
    with shown("upserting", stage.spark, quiet=stage.quiet):
        result = stage.table.upsert(frame, order_by="ts", batch=_BATCH)
    stage.console.print(upserted(result))
    stage.console.print()
    print_rows(stage.console, _two(stage))
    stage.say(
        f"The first one is replaced; the second has come [bold]late[/], older than what is stored, and lost. "
        f"{counted(result.replaced, 'row')} of older files are hidden, {counted(result.files, 'file')} came, none was rewritten."
    )
    return asdict(result)


def _two(stage: Stage) -> pa.Table:
    """The needle and the request after it, in this order."""
    ids = (stage.needle, request_id(stage.rows // 2 + 1))
    return pa.concat_tables([stage.table.find(request_id=one, columns=_COLUMNS).to_arrow() for one in ids])


def _replay(stage: Stage) -> Facts:
    stage.python('table.upsert(df, order_by="ts", batch=("retries", 1))')
    result = stage.table.upsert(corrections(stage.spark, stage.rows), order_by="ts", batch=_BATCH)
    stage.console.print(upserted(result))
    stage.say("The log remembers the last number of each application. No job was started; a stream that begins again is safe.")
    return asdict(result)


def _delete(stage: Stage) -> Facts:
    where = f"user_id = {_FORGOTTEN_USER}"
    stage.command(f'needlefish delete {stage.uri} --where "{where}"')
    with shown("deleting", stage.spark, quiet=stage.quiet):
        result = stage.table.delete(where=where)
    stage.console.print(deleted(result))
    left = stage.table.find(user_id=_FORGOTTEN_USER)
    size, data_bytes = _skips_bytes(stage), stage.table.describe().bytes
    stage.console.print()
    stage.command(f"needlefish find {stage.uri} user_id={_FORGOTTEN_USER}")
    stage.console.print(f"{counted(len(left), 'row')} found")
    stage.say(
        f"All hidden rows so far, as Roaring bitmaps, take {bytes_text(size)}; the data files stay as they were, {bytes_text(data_bytes)}."
    )
    return asdict(result) | {"left": len(left), "skips_bytes": size}


def _skips_bytes(stage: Stage) -> int:
    return sum(file.stat().st_size for file in (Path(stage.uri) / "_needlefish" / "metadata" / "skips").glob("*.arrow"))


CHANGE_STEPS = (
    Step(
        title="Second thoughts",
        text="Failed requests were tried again: new rows for known keys. One of them is older than the row that is stored.",
        run=_upsert,
    ),
    Step(title="The same delivery again", text="A job that was restarted delivers what it has delivered before.", run=_replay),
    Step(title="A user to forget", text="By a condition, or by a frame of keys; from this version on nobody sees the rows.", run=_delete),
)
