"""Point indexes of aligned cuckoo filters: build, probe, merge. Normative text: spec/cuckoo.md.

A probe is two range reads of one bucket row each, whatever the number of files; a row grows by some slots with each.
"""

from needlefish.filters.cuckoo import bits_for, bits_per_key, buckets_for, false_rate
from needlefish.filters.cuckoo_hash import BITS
from needlefish.index.cuckoo.builder import CuckooBuilder
from needlefish.index.cuckoo.merge import merge_cuckoo
from needlefish.index.cuckoo.reader import CuckooReader
from needlefish.index.cuckoo.verify import verify_cuckoo

__all__ = [
    "BITS",
    "CuckooBuilder",
    "CuckooReader",
    "bits_for",
    "bits_per_key",
    "buckets_for",
    "false_rate",
    "merge_cuckoo",
    "verify_cuckoo",
]
