"""`needlefish compact`: hidden rows folded away and small files merged, without changing a visible row."""

from needlefish.cli import arguments as given
from needlefish.cli.planned_service import Immutable, PlanOnly, plan_and_execute
from needlefish.cli.scan import Partitions, Where, partition_values


def compact(
    uri: given.Uri,
    partition: Partitions = None,
    where: Where = None,
    immutable: Immutable = False,
    plan_only: PlanOnly = False,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Rewrite files that hold many hidden rows and merge small ones; or those of some partitions, whatever they are like.

    No visible row changes, and older versions can be read as before. Writers go on meanwhile; one that touches the same
    files ends the compaction, unless it is --immutable. Small plans need no Spark.
    """
    table = given.open_table(uri, option)
    chosen = {"partitions": partition_values(partition), "where": where}
    plan_and_execute(table, "compaction", chosen, immutable=immutable, plan_only=plan_only, as_json=as_json)
