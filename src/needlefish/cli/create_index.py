"""`needlefish create-index`: a point index for a table that has rows already, through Spark."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.human import bytes_text, counted, seconds_text
from needlefish.cli.index_text import index_from_text
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown, started_spark

IndexText = Annotated[
    str,
    typer.Argument(
        metavar="INDEX",
        help='The column or columns, then settings: "user_id", "host,port kind=cuckoo bits=16", "user_id false_reads=0.01".',
        show_default=False,
    ),
]


def create_index(uri: given.Uri, index: IndexText, option: given.Options = None, as_json: given.AsJson = False) -> None:
    """Index a column of a table that has rows already, through Spark. Writers and finders go on meanwhile.

    Settings: kind (postings, cuckoo), granularity (row_group, file), false_reads, expected_keys, bits, buckets, name.
    """
    declared = index_from_text(index, "INDEX")
    table = given.open_table(uri, option)
    spark = started_spark(quiet=as_json)
    with shown("indexing", spark, quiet=as_json):
        result = table.create_index(declared)
    if as_json:
        print_json(asdict(result) | {"bits_per_key": result.bits_per_key})
        return
    size = f"{bytes_text(result.bytes)}, {result.bits_per_key:.1f} bits a key"
    seconds = seconds_text(result.seconds)
    words = f"version {result.version}: index {result.index} of {counted(result.keys, 'key')} in {counted(result.files, 'file')}, {size}, in {seconds}"
    stdout_console().print(Text(words))
