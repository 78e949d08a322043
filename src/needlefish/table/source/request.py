"""What a read through the data source asks for; it travels to the tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from needlefish.model.log import TableState
from needlefish.model.schema import Field
from needlefish.table.find import Wanted
from needlefish.table.predicate import Predicate
from needlefish.table.predicate.tree import TRUE
from needlefish.table.source.question import question


@dataclass(frozen=True, kw_only=True)
class SourceRead:
    """Some columns of the rows of one version for which the predicate is true; `output` has them as Spark takes them."""

    state: TableState
    columns: tuple[Field, ...]
    output: pa.Schema
    predicate: Predicate = TRUE
    # As `scan` takes them.
    partitions: Mapping[str, object] | None = None

    @cached_property
    def wanted(self) -> Wanted | None:
        """Values to look up. Planner and tasks work them out alike, so that values travel as their numbers."""
        return question(self.state.definition, self.predicate)
