"""What a loop does to its tables, and how often."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TendOptions:
    """Each of the services can be left to others. Rollbacks, merges and plans that wait are always seen to."""

    every_seconds: float = 60.0
    compact: bool = True
    # Columns that new files are clustered by; none for no clustering.
    cluster_by: tuple[str, ...] = ()
    zorder: bool = False
    clean: bool = True
    # A clean lists objects, which costs more than a look at the log.
    clean_every_seconds: float = 3_600.0
