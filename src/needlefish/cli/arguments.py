"""Arguments that several commands take, and texts of the form `name=value` and `a,b`."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from needlefish.api import Table
from needlefish.errors import InvalidError

Uri = Annotated[
    str, typer.Argument(metavar="URI", help="The table: a local path, or an address such as s3://bucket/table.", show_default=False)
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="A storage option such as aws_region=eu-west-1; repeatable. The environment is used as well.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print JSON, errors too.")]
Version = Annotated[
    int | None, typer.Option("--version", metavar="N", help="Read the table as it was at this version.", show_default=False)
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIME",
        help="Read the table as it was at a time: ISO, UTC unless it names a zone, or milliseconds since 1970.",
        show_default=False,
    ),
]

# Shorter ones can be ISO dates without dashes.
_LEAST_DIGITS_OF_MS = 9


def open_table(uri: str, options: Sequence[str] | None, version: int | None = None, timestamp: str | None = None) -> Table:
    """The table that the shared arguments name."""
    moment = int(timestamp) if timestamp is not None and timestamp.isdigit() and len(timestamp) >= _LEAST_DIGITS_OF_MS else timestamp
    return Table.open(uri, version, timestamp=moment, storage_options=storage_options(options))


def storage_options(given: Sequence[str] | None) -> dict[str, str]:
    """Options may be secrets, so that a wrong one is not repeated in the message."""
    if any("=" not in text for text in given or ()):
        raise InvalidError("--option has a text without '='; write it as NAME=VALUE, for example --option aws_region=eu-west-1")
    return dict(pairs(given, "--option"))


def pairs(given: Sequence[str] | None, argument: str) -> Iterator[tuple[str, str]]:
    """Each `name=value`; a value may hold further equals signs."""
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InvalidError(f"{argument} is {text!r}; write it as NAME=VALUE")
        yield name.strip(), value


def names(given: Sequence[str] | None) -> list[str]:
    """Names from repeated options, each of which may be a list with commas."""
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]
