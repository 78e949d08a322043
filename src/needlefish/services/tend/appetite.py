"""How much a compaction takes on where writers are quick. One over a whole table is in the way of every writer and never comes to
its end; one over a few files does. So a plan that a writer ended is followed by smaller ones, which grow again as they complete.
"""

from needlefish.services.rewrite import RewritePlan

_LEAST_FILES = 8
# Few enough writers are in the way of so many that there is no need to count.
_MOST_FILES = 4_096
_SMALLER = 4


class Appetite:
    """Of one table; unbounded until a writer was first."""

    def __init__(self) -> None:
        self._most_files: int | None = None
        self._is_safe = False

    def bite(self, plan: RewritePlan) -> list[str] | None:
        """The files to take of a plan, None for all. Those whose rows are all hidden already come first and alone: no writer has
        anything to do with them any more.
        """
        self._is_safe = False
        if self._most_files is None or len(plan.inputs) <= self._most_files:
            return None
        gone = [key for group in plan.groups if not group.visible for key in group.files]
        self._is_safe = bool(gone)
        groups = sorted(plan.groups, key=lambda group: group.visible)
        return gone or [key for group in groups for key in group.files][: self._most_files]

    def was_preempted(self, files: int) -> None:
        self._most_files = max(_LEAST_FILES, files // _SMALLER)

    def was_completed(self) -> None:
        if self._most_files is not None and not self._is_safe:
            self._most_files = 2 * self._most_files if self._most_files < _MOST_FILES else None
