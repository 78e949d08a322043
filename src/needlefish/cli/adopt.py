"""`needlefish adopt`: a directory of Parquet files becomes a table, through Spark."""

from dataclasses import asdict
from typing import Annotated

import typer

from needlefish.api import Table
from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.create import Bloom, Index, Key, PartitionBy, Property, property_values
from needlefish.cli.describe import description
from needlefish.cli.index_text import indexes_from_texts
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown, started_spark

SchemaText = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="TEXT", help="The columns, where the first file's types are too narrow for the others.", show_default=False
    ),
]


def adopt(
    uri: given.Uri,
    key: Key,
    partition_by: PartitionBy = None,
    schema: SchemaText = None,
    index: Index = None,
    bloom: Bloom = None,
    properties: Property = None,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Make a directory of Parquet files a table, in place: no file is rewritten or moved.

    Names that begin with _ or . are left out. Folders such as day=2026-11-01 become columns; name them with --partition-by.
    """
    options = given.storage_options(option)
    checked = property_values(properties)
    indexes = indexes_from_texts(index)
    spark = started_spark(quiet=as_json)
    with shown("adopting", spark, quiet=as_json):
        table = Table.adopt(
            uri,
            key=given.names(key),
            partition_by=partition_by or [],
            schema=schema,
            indexes=indexes,
            bloom_columns=given.names(bloom),
            properties=checked,
            storage_options=options,
        )
    if as_json:
        print_json(asdict(table.describe()))
        return
    stdout_console().print(description(table.describe()))
