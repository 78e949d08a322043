"""A delivery as a text: `etl:17`, the application's name and the batch's number."""

from typing import Annotated

import typer

from needlefish.errors import InvalidError

BatchText = Annotated[
    str | None,
    typer.Option(
        "--batch",
        metavar="NAME:NUMBER",
        help="Who delivers, and the number of the delivery, such as etl:17; one not above the last of that name does nothing.",
        show_default=False,
    ),
]


def batch_from_text(text: str | None) -> tuple[str, int] | None:
    """The name may hold colons, the number follows the last one."""
    if text is None:
        return None
    name, sign, number = text.rpartition(":")
    if not sign or not name or not number.removeprefix("-").isdecimal():
        raise InvalidError(f"--batch is {text!r}; write it as NAME:NUMBER, with a whole number that rises, for example --batch etl:17")
    return name, int(number)
