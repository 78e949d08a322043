"""`needlefish evolve`: other columns, the same files."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.describe import description
from needlefish.cli.json_output import print_json
from needlefish.errors import InvalidError
from needlefish.model.schema import schema_from_text

Add = Annotated[
    list[str] | None,
    typer.Option(
        "--add", metavar="'NAME TYPE'", help='A new column that may be null, such as "note string"; repeatable.', show_default=False
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="A,B", help="Columns to take away; a list with commas, or repeated.", show_default=False),
]
Rename = Annotated[
    list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="A column and its new name; repeatable.", show_default=False)
]
Widen = Annotated[
    list[str] | None,
    typer.Option("--widen", metavar="NAME=TYPE", help="A column and its wider type, such as n=int64; repeatable.", show_default=False),
]
Reorder = Annotated[
    list[str] | None,
    typer.Option("--reorder", metavar="A,B", help="The columns that come first; the others follow as they are.", show_default=False),
]


def evolve(
    uri: given.Uri,
    add: Add = None,
    drop: Drop = None,
    rename: Rename = None,
    widen: Widen = None,
    reorder: Reorder = None,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Add, drop, rename, widen or reorder columns, as one version; no file is touched.

    Columns are known by id: one that is dropped and added again under its name begins empty.
    """
    table = given.open_table(uri, option)
    table.evolve(
        add=_added(add or ()),
        drop=given.names(drop),
        rename=_pairs(rename, "--rename"),
        widen=_pairs(widen, "--widen"),
        reorder=given.names(reorder),
    )
    if as_json:
        print_json(asdict(table.describe()))
        return
    stdout_console().print(description(table.describe()))


def _added(texts: Sequence[str]) -> dict[str, str]:
    """Each text is read as `create --schema` reads its own."""
    fields = [field for text in texts for field in schema_from_text(text).fields]
    for field in fields:
        if not field.nullable:
            raise InvalidError(
                f"--add has {field.name!r} as not null; rows that are there already have no value for it: leave out 'not null'"
            )
    return _distinct([(field.name, field.type) for field in fields], "--add")


def _pairs(texts: Sequence[str] | None, argument: str) -> dict[str, str]:
    return _distinct([(name, value.strip()) for name, value in given.pairs(texts, argument)], argument)


def _distinct(pairs: Sequence[tuple[str, str]], argument: str) -> dict[str, str]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
        raise InvalidError(f"{argument} names column {repeated!r} twice; name each once")
    return found
