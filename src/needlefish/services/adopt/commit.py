"""The entry that makes a directory a table."""

from collections.abc import Sequence

from needlefish.errors import AlreadyExistsError, NotFoundError
from needlefish.format.files_record import encode_files
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.log import RunRef, TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store
from needlefish.table.commit import totals_of
from needlefish.timeline import Log, Proposal, read_newest
from needlefish.version import WRITER


def check_no_table(store: Store) -> None:
    """Before the work begins; the commit checks again."""
    try:
        state = read_newest(store)
    except NotFoundError:
        return
    raise _exists(store, state)


def commit_adoption(
    store: Store, definition: TableDefinition, infos: Sequence[ChunksetInfo], runs: Sequence[RunRef], runtime: Runtime = SYSTEM
) -> TableState:
    """Puts version 0 with the definition and all files. Of several adopters at once exactly one succeeds."""
    files = (put_run(store, "files", encode_files(infos), runtime),) if infos else ()

    def propose(state: TableState | None) -> Proposal:
        if state is not None:
            raise _exists(store, state)
        return Proposal(action="adopt", definition=definition, runs_added=(*files, *runs), added=totals_of(infos))

    return Log(store, WRITER, runtime).append(None, propose)


def _exists(store: Store, state: TableState) -> AlreadyExistsError:
    return AlreadyExistsError(f"{store.uri} holds a table already (version {state.version}); open it, or adopt another directory")
