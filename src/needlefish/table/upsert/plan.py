"""What the tasks of one upsert or delete need to know."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from needlefish.config import StoreConfig
from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.model.schema import RESERVED, Field
from needlefish.store import RetriedStore, open_store
from needlefish.table.snapshot import Snapshot

# Where a row stood in the frame: of equal keys, and equal `order_by`, the last one counts.
POSITION = f"{RESERVED}_position"
# Rows with the same key that a task dropped, on the last row that it let pass.
DROPPED = f"{RESERVED}_dropped"
# On the way to where keys are compared: what the batch orders by, whether the key is to be deleted, and where its own new
# row lies if it has one.
ORDER = f"{RESERVED}_order"
DELETES = f"{RESERVED}_deletes"
OWN_ROW = f"{RESERVED}_own_row"
OWN_FILE = f"{RESERVED}_own_file"
OWN_PARTITION = f"{RESERVED}_own_partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """`work` is the folder of what tasks hand each other through the store; nothing there is ever part of the table."""

    definition: TableDefinition
    store: StoreConfig
    version: int
    work: str
    order_by: int | None = None
    # A column of the frame, not of the table, that marks rows to delete.
    deleted_by: str | None = None
    indexed_keys: Mapping[str, int] = field(default_factory=dict)
    # The attempt that all ids begin with.
    owner: str = ""

    @property
    def order_field(self) -> Field | None:
        return None if self.order_by is None else self.definition.schema.field_by_id(self.order_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePlan:
    """A version to look for keys in, or what was added since one."""

    state: TableState
    store: StoreConfig
    order_by: int | None = None

    def open(self) -> Snapshot:
        return self.within(open_store(self.store))

    def within(self, store: RetriedStore) -> Snapshot:
        return Snapshot(store=store, state=self.state)

    @property
    def order_field(self) -> Field | None:
        return None if self.order_by is None else self.state.definition.schema.field_by_id(self.order_by)
