"""Reading one metadata run: its header once, then just the blocks that keys, a prefix or a scan need."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.errors import CorruptError, NotFoundError
from needlefish.format.run import KEY, RunHeader, decode_block, decode_header, run_path
from needlefish.index.cost import Cost, blocks_in, blocks_touched
from needlefish.index.recent import Recent
from needlefish.model.log import RunId, RunRef
from needlefish.store import ByteRange, Store

# Blocks asked for together: neighbours become one request, and this much is the most that memory holds of a run.
_REQUEST_BLOCKS = 64
_REQUEST_BYTES = 4 * 1024 * 1024
# Runs up to this size are read whole and kept.
WHOLE_BYTES = 32 * 1024
# Up to so many keys are looked up one by one, and their blocks kept; more would push out what others need.
_FEW_KEYS = 8

# Blocks by run and number.
Blocks = Recent[tuple[RunId, int], pa.RecordBatch]


class RunReader:
    """A run of one table version. Safe to share between threads.

    The store comes with each call rather than once, so that whoever asks is charged for what it reads. Blocks that a few
    keys need are kept in `blocks`, where it is given: decoding one takes longer than reading it from a local disk.
    """

    def __init__(self, ref: RunRef, blocks: Blocks | None = None) -> None:
        self.ref = ref
        self._kept = blocks
        self._path = run_path(ref.kind, ref.id)
        self._lock = Lock()
        self._header: tuple[RunHeader, pa.Schema] | None = None
        # A small run comes whole with its header, since a request costs more than its bytes.
        self._whole: bytes | None = None

    def header(self, store: Store) -> tuple[RunHeader, pa.Schema]:
        """Read at the first call, kept after it: some 60 bytes for each block of the run."""
        with self._lock:
            if self._header is None:
                small = self.ref.bytes <= WHOLE_BYTES
                (data,) = self._read(store, [ByteRange(0, self.ref.bytes if small else self.ref.header_bytes)])
                self._header = decode_header(data[: self.ref.header_bytes], self.ref.header_checksum, self._path)
                self._whole = data if small else None
            return self._header

    def scan(self, store: Store) -> Iterator[pa.RecordBatch]:
        """All records in key order, a few blocks at a time."""
        header, _ = self.header(store)
        yield from self._blocks(store, range(len(header.first_keys)))

    def with_prefixes(self, store: Store, prefixes: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The records whose keys begin with one of `prefixes`, in key order. Each block is read once."""
        wanted = _shortest(sorted(set(prefixes)))
        self.header(store)
        for block in self._blocks(store, self._numbers(wanted)):
            yield from _cut(block, wanted)

    def get(self, store: Store, keys: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The records with these keys, in key order; thousands at once read each block they need once."""
        wanted = sorted(set(keys))
        places = _places(self.header(store)[0], wanted)
        if len(wanted) <= _FEW_KEYS:
            for block in self._kept_blocks(store, places):
                yield from _picked(block, wanted)
            return
        chosen = pa.array(wanted, pa.string())
        for block in self._blocks(store, places):
            yield block.filter(pc.is_in(block[KEY], chosen))

    def expected_of_scan(self) -> Cost:
        """What a scan is going to cost, from what is known without a request; so do the two below."""
        return self._expected(None, blocks_in(self.ref))

    def expected_of_prefixes(self, prefixes: Sequence[str], share: float) -> Cost:
        """`share` is the part of all records that the prefixes are thought to have."""
        if self._header is None:
            return self._expected(None, min(blocks_in(self.ref), share * blocks_in(self.ref) + len(prefixes)))
        return self._expected(self._numbers(prefixes), 0)

    def expected_of_get(self, keys: Sequence[str]) -> Cost:
        if self._header is None:
            return self._expected(None, blocks_touched(blocks_in(self.ref), len(keys)))
        wanted = sorted(set(keys))
        places = _places(self._header[0], wanted)
        return self._expected(self._missing(places) if len(wanted) <= _FEW_KEYS else places, 0)

    def _expected(self, numbers: Sequence[int] | None, blocks: float) -> Cost:
        """Of these blocks where the header is at hand, else of so many of average size and the header; a small run comes whole."""
        if self.ref.bytes <= WHOLE_BYTES:
            return Cost() if self._whole is not None else Cost(requests=1, bytes=self.ref.bytes)
        if self._header is not None:
            offsets = self._header[0].offsets
            known = range(len(offsets) - 1) if numbers is None else numbers
            return Cost(requests=len(known), bytes=sum(offsets[n + 1] - offsets[n] for n in known))
        data_bytes = self.ref.bytes - self.ref.header_bytes
        average = data_bytes / max(1, blocks_in(self.ref))
        return Cost(requests=1 + round(blocks), bytes=self.ref.header_bytes + round(blocks * average))

    def _numbers(self, prefixes: Iterable[str]) -> list[int]:
        assert self._header is not None
        return sorted({number for prefix in prefixes for number in _blocks_of(self._header[0], prefix)})

    def _missing(self, numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if self._kept is None or (self.ref.id, number) not in self._kept]

    def _kept_blocks(self, store: Store, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Few blocks, those that are missing read together."""
        if self._kept is None:
            yield from self._blocks(store, numbers)
            return
        blocks = {number: self._kept.get((self.ref.id, number)) for number in numbers}
        missing = [number for number, block in blocks.items() if block is None]
        for number, block in zip(missing, self._blocks(store, missing), strict=True):
            self._kept.keep((self.ref.id, number), block, block.nbytes)
            blocks[number] = block
        yield from (block for block in blocks.values() if block is not None)

    def _blocks(self, store: Store, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        header, schema = self.header(store)
        for group in _groups(header, numbers):
            spans = [ByteRange(self.ref.header_bytes + header.offsets[n], header.offsets[n + 1] - header.offsets[n]) for n in group]
            for number, data in zip(group, self._read(store, spans), strict=True):
                yield decode_block(data, header, schema, number, self._path)

    def _read(self, store: Store, spans: Sequence[ByteRange]) -> list[bytes]:
        whole = self._whole
        if whole is not None:
            return [whole[span.start : span.end] for span in spans]
        try:
            return store.get_ranges(self._path, spans)
        except NotFoundError as error:
            # The version names it, so that nothing but damage can have taken it away.
            raise CorruptError(f"{self._path}: missing, though a version has it") from error


def _groups(header: RunHeader, numbers: Sequence[int]) -> Iterator[list[int]]:
    """Blocks that one call asks for; a block larger than a call's worth comes alone."""
    group: list[int] = []
    group_bytes = 0
    for number in numbers:
        block_bytes = header.offsets[number + 1] - header.offsets[number]
        if group and (len(group) == _REQUEST_BLOCKS or group_bytes + block_bytes > _REQUEST_BYTES):
            yield group
            group, group_bytes = [], 0
        group.append(number)
        group_bytes += block_bytes
    if group:
        yield group


def _places(header: RunHeader, keys: Sequence[str]) -> list[int]:
    """The blocks that may hold one of the sorted keys: each lies in the last block that starts at or before it, if in any."""
    first_keys = header.first_keys
    places = {place for key in keys if (place := bisect_right(first_keys, key) - 1) >= 0}
    if header.records == len(first_keys):
        # Blocks of one record, as large filters have them: the index knows every key there is.
        wanted = set(keys)
        return sorted(place for place in places if first_keys[place] in wanted)
    return sorted(places)


def _picked(block: pa.RecordBatch, keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records with these keys, which are sorted as the block is: a few looks at one column beat filtering all of them."""
    column = block[KEY]
    for key in keys:
        place = bisect_left(column, key, key=pa.StringScalar.as_py)
        if place < len(column) and column[place].as_py() == key:
            yield block.slice(place, 1)


def _blocks_of(header: RunHeader, prefix: str) -> range:
    keys = header.first_keys
    # The last block that starts at or before the prefix may end with it.
    first = max(bisect_right(keys, prefix) - 1, 0)
    return range(first, bisect_right(keys, _after(prefix)))


def _shortest(prefixes: list[str]) -> list[str]:
    """Without those that another one covers, so that no record comes twice."""
    kept: list[str] = []
    for prefix in prefixes:
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept


def _after(prefix: str) -> str:
    """A text above every key that begins with `prefix`: keys are ASCII."""
    return prefix + "\x7f"


def _cut(block: pa.RecordBatch, prefixes: list[str]) -> Iterator[pa.RecordBatch]:
    keys = block[KEY].to_pylist()
    for prefix in prefixes:
        first, end = bisect_left(keys, prefix), bisect_left(keys, _after(prefix))
        if first < end:
            yield block.slice(first, end - first)
