"""`needlefish cluster`: rows sorted anew, so that conditions on other columns leave more files alone."""

from typing import Annotated

import typer

from needlefish.cli import arguments as given
from needlefish.cli.planned_service import Immutable, PlanOnly, plan_and_execute
from needlefish.cli.scan import Partitions, Where, partition_values

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", metavar="A,B", help="The columns to sort by; a list with commas, or repeated. The row key unless given.", show_default=False
    ),
]
ZOrder = Annotated[bool, typer.Option("--zorder", metavar="", help="All columns count alike, rather than one after the other.")]
TargetBytes = Annotated[
    int | None,
    typer.Option(
        "--target-bytes", metavar="N", min=1, help="How large files shall be; the table's own size unless given.", show_default=False
    ),
]


def cluster(
    uri: given.Uri,
    by: By = None,
    zorder: ZOrder = False,
    target_bytes: TargetBytes = None,
    partition: Partitions = None,
    where: Where = None,
    immutable: Immutable = False,
    plan_only: PlanOnly = False,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Sort the rows of files that are not clustered that way yet, or of some partitions, by columns of your choice.

    No visible row changes. Writers go on meanwhile, as beside a compaction.
    """
    table = given.open_table(uri, option)
    options: dict[str, object] = {
        "by": None if by is None else given.names(by),
        "zorder": zorder,
        "target_bytes": target_bytes,
        "partitions": partition_values(partition),
        "where": where,
    }
    plan_and_execute(table, "clustering", options, immutable=immutable, plan_only=plan_only, as_json=as_json)
