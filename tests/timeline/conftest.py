"""Small logs on memory stores, written through the front door or entry by entry."""

from collections.abc import Callable
from itertools import count

import pytest

from needlefish.config import StoreConfig
from needlefish.format.log_entry import encode_entry, log_path
from needlefish.model.definition import TableDefinition
from needlefish.model.log import FORMAT, LogEntry, RunId, RunRef, TableState, Totals
from needlefish.model.schema import schema_from_text
from needlefish.runtime import Runtime
from needlefish.store import RetriedStore, Store, open_store
from needlefish.table.create import create_table, define_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.timeline import Log, Proposal, fold
from needlefish.timeline.checkpoint import write_checkpoints

_numbers = count()


@pytest.fixture
def store() -> RetriedStore:
    """Empty, and no other test's."""
    return open_store(StoreConfig(uri=f"memory://timeline-{next(_numbers)}"))


@pytest.fixture(scope="session")
def definition() -> TableDefinition:
    return define_table(schema_from_text("id string"), "id", (), {})


@pytest.fixture
def created(store: RetriedStore, definition: TableDefinition) -> TableState:
    return create_table(store, definition)


@pytest.fixture
def append() -> Callable[..., TableState]:
    """Appends one entry that adds a row and a run."""

    def appended(store: Store, state: TableState | None, runtime: Runtime | None = None) -> TableState:
        runtime = runtime or Runtime(clock=FakeClock())
        run = RunRef(id=RunId(runtime.new_id()), kind="files", bytes=1, header_bytes=1, header_checksum="", records=1)
        return Log(store, "test", runtime).append(state, lambda _: Proposal(action="append", runs_added=(run,), added=Totals(rows=1)))

    return appended


@pytest.fixture(scope="session")
def long_log(definition: TableDefinition) -> Callable[[Store, int], TableState]:
    """Writes a log of so many versions as a lone writer would have left it, much faster."""

    def written(store: Store, versions: int) -> TableState:
        state: TableState | None = None
        for version in range(versions):
            entry = LogEntry(
                format=FORMAT,
                version=version,
                token=f"{version:032x}",
                timestamp_ms=1_000 + version * 10,
                action="append" if version else "create",
                writer="test",
                definition=None if version else definition,
                added=Totals(rows=1 if version else 0),
            )
            store.put(log_path(version), encode_entry(entry))
            state = fold(state, entry)
            if version % definition.properties.checkpoint_interval == 0 or version == versions - 1:
                write_checkpoints(store, state)
        assert state is not None
        return state

    return written
