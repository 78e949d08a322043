"""How calls become requests at each backend: what the meter counts and what `spec/store.md` tabulates."""

from dataclasses import dataclass

# Larger puts go up in parts of this size: a part passes within obstore's 30 s at half a megabyte per second, and the
# limit of 10,000 parts is then 160 GB.
PART_BYTES = 16 << 20

# 128 KiB take about 1.5 ms from a cloud store, a tenth of what one more request takes to begin.
_CLOUD_GAP_BYTES = 128 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """`gap_bytes`: ranges this close are read as one (None: never joined). The others: how much one request carries (0: all)."""

    gap_bytes: int | None = None
    part_bytes: int = 0
    page_keys: int = 1000
    delete_keys: int = 1

    def put_requests(self, size: int) -> int:
        """One, or the opening, the parts and the completion of a multipart upload."""
        if not self.part_bytes or size <= self.part_bytes:
            return 1
        return -(-size // self.part_bytes) + 2

    def delete_requests(self, keys: int) -> int:
        return -(-keys // self.delete_keys)


LOCAL = RequestShape()
MEMORY = RequestShape()
S3 = RequestShape(gap_bytes=_CLOUD_GAP_BYTES, part_bytes=PART_BYTES, delete_keys=1000)
# Stores that speak S3 without its bulk delete.
S3_SINGLE_DELETE = RequestShape(gap_bytes=_CLOUD_GAP_BYTES, part_bytes=PART_BYTES)
GS = RequestShape(gap_bytes=_CLOUD_GAP_BYTES, part_bytes=PART_BYTES)
AZ = RequestShape(gap_bytes=_CLOUD_GAP_BYTES, part_bytes=PART_BYTES, page_keys=5000, delete_keys=256)
