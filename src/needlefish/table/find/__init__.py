"""Finding rows by value: files of the partitions, ranges, filters, and only then the granules that are left.

Each level may only rule files out by what it knows; what is missing or damaged lets them pass, and the receipt says so.
"""

from needlefish.table.find.candidates import candidates
from needlefish.table.find.exact import number_rows, pairs_of
from needlefish.table.find.match import ROW, Match, match_rows
from needlefish.table.find.receipt import FindReceipt, LevelReceipt
from needlefish.table.find.run import find_rows
from needlefish.table.find.search import Candidate, Search
from needlefish.table.find.wanted import Wanted, wanted_arrays, wanted_keys, wanted_values

__all__ = [
    "ROW",
    "Candidate",
    "FindReceipt",
    "LevelReceipt",
    "Match",
    "Search",
    "Wanted",
    "candidates",
    "find_rows",
    "match_rows",
    "number_rows",
    "pairs_of",
    "wanted_arrays",
    "wanted_keys",
    "wanted_values",
]
