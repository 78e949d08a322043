"""Round after round over all tables, until somebody asks it to stop."""

from collections.abc import Sequence

from needlefish.services.stopping import Stop
from needlefish.services.tend.table import TendedTable


def tend(tables: Sequence[TendedTable], stop: Stop, every_seconds: float, *, once: bool = False) -> None:
    """Tables take turns, each as long as its work takes. What goes wrong at one is told and keeps nothing from the others."""
    while not stop.asked:
        for table in tables:
            if not stop.asked:
                table.tend()
        if once:
            return
        stop.wait(every_seconds)
