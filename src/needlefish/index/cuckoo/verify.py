"""Reading a cuckoo run from end to end, to see that every byte is what was written."""

from needlefish.errors import CorruptError
from needlefish.format.cuckoo_rows import row_bytes_for
from needlefish.format.cuckoo_run import Region, decode_trailer, filters_region
from needlefish.format.granule_table import check_granules
from needlefish.index.cuckoo.file import CuckooFile, stripe_rows
from needlefish.model.log import RunRef
from needlefish.store import Store


def verify_cuckoo(store: Store, ref: RunRef) -> None:
    """Raises CorruptError at the first thing that is not as the log says."""
    file = CuckooFile(ref)
    _verify_trailer(store, file)
    filters = file.filters(store)
    if row_bytes_for(filters.total_slots, file.point.bits) != file.point.row_bytes:
        raise CorruptError(f"{file.path}: {filters.total_slots} slots do not fill rows of {file.point.row_bytes} bytes")
    check_granules(file.granule_table(store), file.path)
    stripe = stripe_rows(file.point.row_bytes)
    for first in range(file.point.first, file.point.end, stripe):
        file.cells(store, first, min(first + stripe, file.point.end), filters.total_slots)


def _verify_trailer(store: Store, file: CuckooFile) -> None:
    ref, table = file.ref, filters_region(file.point)
    if table.start + table.length + ref.header_bytes != ref.bytes:
        raise CorruptError(f"{file.path}: {ref.bytes} bytes do not fit what the log says is in them")
    (data,) = file.read(store, [Region(ref.bytes - ref.header_bytes, ref.header_bytes)])
    trailer = decode_trailer(data, ref.header_checksum, file.path)
    if (trailer.kind, trailer.records, trailer.point) != (ref.kind, ref.records, file.point):
        raise CorruptError(f"{file.path}: the trailer says other things than the log")
