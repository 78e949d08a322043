"""Hashed postings: which granules may hold a value, for a small read whatever their number. Normative text: spec/postings.md.

Fills the seams of `index.point`; must not know tables, versions or Parquet.
"""

from needlefish.filters.postings import predicted_bits
from needlefish.index.postings.build import PostingsBuilder
from needlefish.index.postings.merge import merge_postings
from needlefish.index.postings.reader import PostingsReader
from needlefish.index.postings.shape import merged_layout, slots_for
from needlefish.index.postings.verify import verify_postings

__all__ = ["PostingsBuilder", "PostingsReader", "merge_postings", "merged_layout", "predicted_bits", "slots_for", "verify_postings"]
