"""`needlefish create`: an empty table."""

from dataclasses import asdict
from typing import Annotated

import pyarrow as pa
import typer

from needlefish.api import Table
from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.describe import description
from needlefish.cli.index_text import indexes_from_texts
from needlefish.cli.json_output import print_json
from needlefish.cli.parquet_schema import read_parquet_schema
from needlefish.errors import InvalidError
from needlefish.model.definition import Properties

SchemaText = Annotated[
    str | None,
    typer.Option("--schema", metavar="TEXT", help='The columns, such as "id string, ts timestamp, n int64 not null".', show_default=False),
]
Like = Annotated[
    str | None, typer.Option("--like", metavar="FILE", help="Take the columns of this Parquet file instead.", show_default=False)
]
Key = Annotated[
    list[str],
    typer.Option(
        "--key", "-k", metavar="A,B", help="The columns that identify a row; a list with commas, or repeated.", show_default=False
    ),
]
PartitionBy = Annotated[
    list[str] | None,
    typer.Option(
        "--partition-by",
        metavar="COLUMN",
        help='A column or a computed one, such as "day(ts)" or "bucket(user_id, 16)"; repeatable.',
        show_default=False,
    ),
]
Bloom = Annotated[
    list[str] | None,
    typer.Option(
        "--bloom", metavar="A,B", help="Columns besides the key whose values get Bloom filters; a list, or repeated.", show_default=False
    ),
]
Index = Annotated[
    list[str] | None,
    typer.Option(
        "--index",
        metavar="INDEX",
        help='A point index: a column or "a,b", then settings such as kind=cuckoo; repeatable. The key has one unless this is "none".',
        show_default=False,
    ),
]
Property = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="A table property, such as granule_rows=4096; repeatable.", show_default=False),
]


def create(
    uri: given.Uri,
    key: Key,
    schema: SchemaText = None,
    like: Like = None,
    partition_by: PartitionBy = None,
    index: Index = None,
    bloom: Bloom = None,
    properties: Property = None,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Make an empty table."""
    options = given.storage_options(option)
    table = Table.create(
        uri,
        _schema(schema, like, options),
        key=given.names(key),
        partition_by=partition_by or [],
        indexes=indexes_from_texts(index),
        bloom_columns=given.names(bloom),
        properties=property_values(properties),
        storage_options=options,
    )
    if as_json:
        print_json(asdict(table.describe()))
        return
    stdout_console().print(description(table.describe()))


def _schema(text: str | None, like: str | None, options: dict[str, str]) -> str | pa.Schema:
    if text is not None and like is None:
        return text
    if like is not None and text is None:
        return read_parquet_schema(like, options)
    raise InvalidError('the columns must come from exactly one place; give --schema "id string, ts timestamp" or --like FILE.parquet')


def property_values(texts: list[str] | None) -> dict[str, object]:
    return {name: _property(name, value) for name, value in given.pairs(texts, "--property")}


def _property(name: str, text: str) -> object:
    """A text as the kind of value that the property has; an unknown name is left for the table to refuse."""
    default = asdict(Properties()).get(name)
    try:
        match default:
            case bool():
                return {"true": True, "false": False}[text.lower()]
            case int():
                return int(text)
            case float():
                return float(text)
        return text
    except (ValueError, KeyError) as error:
        kind = "true or false" if isinstance(default, bool) else "whole number" if isinstance(default, int) else "number"
        raise InvalidError(f"--property {name}={text} is no {kind}; the default is {name}={default}") from error
