"""Reading for the Spark data source, without Spark: which chunksets a predicate leaves over and why, and their rows.

Values that every row must equal are looked up as `find` does; other conditions rule files out by partition, key and statistics.
"""

from needlefish.table.source.explain import Explanation
from needlefish.table.source.plan import Piece, SourcePlan, explain_source, plan_source
from needlefish.table.source.read import decode_pieces, new_receipt, read_pieces
from needlefish.table.source.request import SourceRead
from needlefish.table.source.share import shares

__all__ = [
    "Explanation",
    "Piece",
    "SourcePlan",
    "SourceRead",
    "decode_pieces",
    "explain_source",
    "new_receipt",
    "plan_source",
    "read_pieces",
    "shares",
]
