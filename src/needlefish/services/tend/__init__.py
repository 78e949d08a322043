"""The loop that keeps tables tidy by policy: rollbacks, plans that wait, compaction, clustering, merges, cleans.

Promises: several loops may tend one table; a quiet table costs two requests a round; asked to stop, it leaves nothing inflight.
"""

from needlefish.services.tend.event import Audience, Event
from needlefish.services.tend.loop import tend
from needlefish.services.tend.options import TendOptions
from needlefish.services.tend.table import TendedTable

__all__ = ["Audience", "Event", "TendOptions", "TendedTable", "tend"]
