"""Thrift's compact protocol, as far as Parquet's footers and headers use it.

Bytes are untrusted: every size is checked against what is left, nesting is bounded, and all that can go wrong is a
CorruptError that names the position. Unknown fields are skipped, as Thrift asks of readers.
"""

from collections.abc import Callable, Iterator

from needlefish.errors import CorruptError

# The compact protocol's type numbers: do not renumber.
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(14)

# Parquet's deepest structure is 6 levels; the bound keeps hostile bytes from exhausting the stack.
_MAX_DEPTH = 32
_FIXED_BYTES = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8, UUID: 16}


class CompactReader:
    """Reads forward through `data`; `what` is the thing that errors name."""

    __slots__ = ("_data", "_depth", "_what", "at")

    def __init__(self, data: bytes, what: str, at: int = 0) -> None:
        self._data = data
        self._what = what
        self._depth = 0
        self.at = at

    def fields(self) -> Iterator[tuple[int, int]]:
        """The (id, type) of each field of a struct; the consumer reads or skips each value before the next."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.corrupt(f"structures nested deeper than {_MAX_DEPTH}")
        field = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            field = field + delta if delta else self._zigzag(16)
            yield field, self._known(kind)
        self._depth -= 1

    def number(self, kind: int, expected: int) -> int:
        """An integer of the expected type: a field of another type under a known id is damage, not evolution."""
        self._expect(kind, expected)
        if expected == BYTE:
            return int.from_bytes(self._take(1), "little", signed=True)
        return self._zigzag({I16: 16, I32: 32, I64: 64}[expected])

    def boolean(self, kind: int) -> bool:
        """A boolean field carries its value in its type."""
        if kind not in (TRUE, FALSE):
            raise self.corrupt(f"a boolean has type {kind}")
        return kind == TRUE

    def binary(self, kind: int) -> bytes:
        self._expect(kind, BINARY)
        return self._take(self._varint(32))

    def text(self, kind: int) -> str:
        try:
            return self.binary(kind).decode()
        except UnicodeDecodeError as error:
            raise self.corrupt("a name is not UTF-8") from error

    def struct(self, kind: int) -> Iterator[tuple[int, int]]:
        """The fields of a nested struct."""
        self._expect(kind, STRUCT)
        return self.fields()

    def items(self, kind: int, element: int) -> Iterator[int]:
        """Once per element of a list, the element's type; the consumer reads or skips each value before the next."""
        self._expect(kind, LIST)
        size, found = self._list_head()
        if size:
            self._expect(found, element)
        for _ in range(size):
            yield found

    def skip(self, kind: int) -> None:
        """Passes over a field's value of any type."""
        if kind in _FIXED_BYTES:
            self._take(_FIXED_BYTES[kind])
        elif kind in (I16, I32, I64):
            self._varint(64)
        elif kind == BINARY:
            self._take(self._varint(32))
        else:
            self._skip_nested(kind)

    def corrupt(self, problem: str) -> CorruptError:
        return CorruptError(f"{self._what}: {problem}, at byte {self.at} of {len(self._data)}")

    def _skip_nested(self, kind: int) -> None:
        if kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind == MAP:
            self._skip_map()
        else:
            size, inner = self._list_head()
            self._repeat(size, lambda: self._skip_element(inner))

    def _skip_map(self) -> None:
        size = self._size(self._varint(32))
        if not size:
            return
        kinds = self._byte()
        key, value = self._known(kinds >> 4), self._known(kinds & 15)

        def skip_entry() -> None:
            self._skip_element(key)
            self._skip_element(value)

        self._repeat(size, skip_entry)

    def _skip_element(self, kind: int) -> None:
        # Inside a collection a boolean takes a byte of its own.
        if kind in (TRUE, FALSE):
            self._take(1)
        else:
            self.skip(kind)

    def _repeat(self, times: int, work: Callable[[], object]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.corrupt(f"structures nested deeper than {_MAX_DEPTH}")
        for _ in range(times):
            work()
        self._depth -= 1

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        size = head >> 4
        return self._size(self._varint(32) if size == 15 else size), self._known(head & 15)

    def _size(self, size: int) -> int:
        # Every element takes a byte at least, so that a claimed size beyond the rest cannot be true.
        if size > len(self._data) - self.at:
            raise self.corrupt(f"{size} elements in {len(self._data) - self.at} bytes")
        return size

    def _expect(self, kind: int, expected: int) -> None:
        if kind != expected:
            raise self.corrupt(f"a field has type {kind} where {expected} belongs")

    def _known(self, kind: int) -> int:
        if not TRUE <= kind <= UUID:
            raise self.corrupt(f"there is no type {kind}")
        return kind

    def _zigzag(self, bits: int) -> int:
        raw = self._varint(bits)
        return (raw >> 1) ^ -(raw & 1)

    def _varint(self, bits: int) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if value >> bits:
                raise self.corrupt(f"a number of more than {bits} bits")
            if byte < 0x80:
                return value
            shift += 7
            if shift >= 70:
                raise self.corrupt("a number that does not end")

    def _byte(self) -> int:
        if self.at >= len(self._data):
            raise self.corrupt("the bytes end early")
        self.at += 1
        return self._data[self.at - 1]

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise self.corrupt(f"{size} bytes wanted where {len(self._data) - self.at} are left")
        self.at += size
        return self._data[self.at - size : self.at]


def encode_varint(value: int) -> bytes:
    """An unsigned number, 7 bits per byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_zigzag(value: int) -> bytes:
    """A signed number: small magnitudes of either sign stay short."""
    return encode_varint((value << 1) ^ (value >> 63))
