"""The one checksum of storage: XXH64 (seed 0) as 16 hexadecimal digits. Do not change: it is in every record."""

import xxhash


def checksum(data: bytes) -> str:
    return str(xxhash.xxh64_hexdigest(data))
