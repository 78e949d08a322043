"""Hidden rows as an engine can join them: a record for each block of a file that has any, with a bit for each of its rows.

A block without hidden rows has no record, so that few skips in many large files stay small, and many take little more
than a bit for each row.
"""

import numpy as np
import pyarrow as pa

from needlefish.table.skips import Hidden

# Rows of a block, as a power of two. A record takes 256 bytes of bits and some hundred for the rest.
BLOCK_BITS = 11
BLOCK_ROWS = 1 << BLOCK_BITS
_WORD_BITS = 64

BLOCK_SCHEMA = pa.schema([("file", pa.string()), ("block", pa.int64()), ("words", pa.list_(pa.int64()))])


def hidden_blocks(file: str, hidden: Hidden) -> pa.RecordBatch:
    """The blocks of one file; row `r` of a block is bit `r % 64` of word `r // 64`."""
    rows = np.asarray(hidden.rows.to_array(), np.int64)
    blocks, places = np.unique(rows >> BLOCK_BITS, return_inverse=True)
    bits = np.zeros((len(blocks), BLOCK_ROWS), np.uint8)
    bits[places, rows & (BLOCK_ROWS - 1)] = 1
    words = np.packbits(bits, bitorder="little").view("<i8")
    offsets = np.arange(len(blocks) + 1, dtype=np.int32) * (BLOCK_ROWS // _WORD_BITS)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(words))
    return pa.RecordBatch.from_arrays([pa.repeat(file, len(blocks)), pa.array(blocks), lists], schema=BLOCK_SCHEMA)
