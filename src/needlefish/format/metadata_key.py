"""Keys of the metadata runs, byte for byte those of Apache Hudi's metadata table.

Each part is hashed and encoded on its own, so that a prefix of the key is the key of a group.
"""

import base64
import hashlib

import xxhash

# 0xDABADABA as a signed 32-bit number, widened with its sign.
_SEED = 0xFFFFFFFFDABADABA


def hash64_part(text: str) -> str:
    """Columns and partitions: 12 characters."""
    return base64.b64encode(xxhash.xxh64_digest(text.encode(), seed=_SEED)).decode()


def hash128_part(file_name: str) -> str:
    """File names, without their folder: 24 characters."""
    return base64.b64encode(hashlib.md5(file_name.encode(), usedforsecurity=False).digest()).decode()


def file_key(partition: str, file_name: str) -> str:
    """The key of `files`, `bloom_filters` and `skips`."""
    return hash64_part(partition) + hash128_part(file_name)


def column_key(column_id: str, partition: str, file_name: str) -> str:
    """The key of `column_stats`."""
    return hash64_part(column_id) + file_key(partition, file_name)
