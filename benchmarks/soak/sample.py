"""How a table looks, again and again while a soak runs."""

import time
from collections import Counter

from needlefish.format.log_entry import LOG_PREFIX
from needlefish.store import RetriedStore
from needlefish.timeline import read_newest


def sample(store: RetriedStore, started: float) -> dict[str, object]:
    """Of the newest version and of all that lies in the store."""
    state = read_newest(store)
    kinds = Counter(run.kind for run in state.runs)
    objects = [(found.path, found.size) for found in store.list()]
    return {
        "second": round(time.monotonic() - started, 1),
        "version": state.version,
        "oldest": state.oldest,
        "live_runs": len(state.runs),
        "most_runs_of_a_kind": max(kinds.values(), default=0),
        "live_files": state.totals.files,
        "live_bytes": state.totals.bytes,
        "rows": state.totals.visible_rows,
        "hidden_rows": state.totals.skipped,
        "instants": len(state.instants),
        "objects": len(objects),
        "bytes": sum(size for _, size in objects),
        # A clean leaves entries alone that are younger than ten minutes, whatever is kept.
        "bytes_but_log": sum(size for path, size in objects if not path.startswith(LOG_PREFIX)),
        "data_files": sum(path.startswith("data/") for path, _ in objects),
    }
