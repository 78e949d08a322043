"""Which store calls are worth a switch between workers: the fewer, the more schedules can be run in the same time.

Two calls commute if their order changes nothing. Objects below `data/`, `metadata/` and `index/` are never overwritten and have
random names, so that only deletions and listings tell when they came to be.
"""

from needlefish.format.log_entry import LOG_PREFIX, ROOT
from needlefish.testing.faulty_store import Call

_IMMUTABLE = ("data/", f"{ROOT}metadata/", f"{ROOT}index/")
# Of one change alone, from its first put to its last delete.
_PRIVATE = (*_IMMUTABLE, f"{ROOT}work/")
_READS = ("get", "get_range", "head")


def every_call(call: Call) -> bool:
    """For workers that delete what others may be reading."""
    return True


def unless_immutable_read(call: Call) -> bool:
    """All but reads of objects that never change; right while no worker deletes any."""
    return call.kind not in _READS or not call.path.startswith(_IMMUTABLE)


def shared_calls(call: Call) -> bool:
    """Also without puts of such objects and all calls on a change's own folder; right while no worker lists or deletes them."""
    return not call.path.startswith(_PRIVATE)


def log_appends(call: Call) -> bool:
    """Attempts to append to the log: with any number of switches, every order of the workers' appends."""
    return call.kind == "put_if_absent" and call.path.startswith(LOG_PREFIX)
