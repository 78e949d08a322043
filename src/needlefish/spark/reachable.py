"""Tables that tasks can reach."""

from needlefish.errors import InvalidError
from needlefish.store import RetriedStore


def check_reachable(store: RetriedStore) -> None:
    """Tasks run in other processes, where a table in this one's memory does not exist."""
    if store.uri.startswith("memory://"):
        raise InvalidError(
            f"uri is {store.uri}; a memory:// table lives in this process and Spark's tasks run in other processes: use a path"
        )
