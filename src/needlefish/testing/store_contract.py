"""What every Store must do, as tests to inherit: `class TestMine(StoreContract)` with a fixture `store` (empty).

The numbers are those of the contract in `needlefish.store.base.Store`.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from threading import Barrier

import pytest

from needlefish.errors import AlreadyExistsError, InvalidError, NotFoundError
from needlefish.store.base import ByteRange, Store

_WRITERS = 8
_NAMES = 12
# Order differs between bytes and folders: '-' and '.' sort before '/', digits behind it.
_UNSORTED = ("b", "a0", "a/c", "a-b/c", "a/b/c", "a.b", "a/b.c", "é", "z/1", "log/0002", "log/0001", "log/0010", "log-old/1")
_PREFIXES = ("", "a", "a/", "a/b", "a/b/", "log", "log/", "log/000", "log/0001", "log/0001/", "missing", "missing/", "é", "z")
_AFTER = ("", "a", "a.b", "a/b/c", "a/b/d", "log/0001", "log/", "log", "zzz", "é")
_ODD_NAMES = (
    "a b/c d",
    "per%cent/%41/%2F",
    "plus+and&equals=/q?x",
    "hash#tag/a#b",
    "ü/日本語/😀",
    "day=2026-11-01/~!$'()*,;:@",
    'quote"<>|^`{}[]\\',
)
_WRONG_NAMES = ("", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", ".", "a\nb", "a#1", "a/b#20")


class StoreContract:
    """Inherited by the test class of each store."""

    def test_1_a_reader_sees_a_whole_object(self, store: Store) -> None:
        """An object is replaced again and again while it is read: no mixture of two writes is ever seen."""
        store.put("hint", b"0" * 20_000)
        seen: list[bytes] = []

        def replace() -> None:
            for turn in range(8):
                store.put("hint", b"%d" % turn * 20_000)

        _together(replace, lambda: seen.extend(store.get("hint") for _ in range(16)))
        assert [(len(data), len(set(data))) for data in seen] == [(20_000, 1)] * 16

    def test_2_one_of_many_conditional_puts_wins(self, store: Store) -> None:
        won: list[tuple[str, bytes]] = []
        lost: list[str] = []

        def write(writer: int) -> None:
            for name in _names():
                try:
                    store.put_if_absent(name, b"%d" % writer)
                    won.append((name, b"%d" % writer))
                except AlreadyExistsError:
                    lost.append(name)

        _together(*(partial(write, writer) for writer in range(_WRITERS)))
        assert sorted(name for name, _ in won) == _names()
        assert len(lost) == _NAMES * (_WRITERS - 1)
        assert {name: store.get(name) for name in _names()} == dict(won)

    def test_2_a_conditional_put_leaves_the_first_bytes(self, store: Store) -> None:
        store.put_if_absent("log/1", b"first")
        with pytest.raises(AlreadyExistsError, match="log/1"):
            store.put_if_absent("log/1", b"second")
        assert store.get("log/1") == b"first"

    def test_2_after_a_delete_a_conditional_put_wins_again(self, store: Store) -> None:
        store.put("a", b"old")
        store.delete(["a"])
        store.put_if_absent("a", b"new")
        assert store.get("a") == b"new"

    def test_3_an_overwrite_is_seen_by_every_read(self, store: Store) -> None:
        store.put("a/hint", b"a longer first value")
        assert store.get("a/hint") == b"a longer first value"
        store.put("a/hint", b"second")
        assert store.get("a/hint") == b"second"
        assert store.get_range("a/hint", ByteRange(0, 100)) == b"second"
        assert store.head("a/hint").size == 6
        assert [info.size for info in store.list()] == [6]

    @pytest.mark.parametrize("size", [0, 1, 20 * 1024 * 1024])
    def test_3_objects_of_any_size(self, store: Store, size: int) -> None:
        data = (bytes(range(256)) * (size // 256 + 1))[:size]
        store.put("sized", data)
        assert store.get("sized") == data
        assert store.head("sized").size == size
        assert store.get_range("sized", ByteRange(size // 2, 7)) == data[size // 2 :][:7]

    @pytest.mark.parametrize(
        ("start", "length", "expected"),
        [
            (0, 10, b"0123456789"),
            (3, 4, b"3456"),
            (8, 100, b"89"),
            (10, 1, b""),
            (99, 5, b""),
            (4, 0, b""),
            (99, 0, b""),
            (2, 1 << 40, b"23456789"),
        ],
    )
    def test_4_ranges_are_cut_at_the_end(self, store: Store, start: int, length: int, expected: bytes) -> None:
        store.put("digits", b"0123456789")
        assert store.get_range("digits", ByteRange(start, length)) == expected
        assert store.get_ranges("digits", [ByteRange(start, length)]) == [expected]

    def test_4_ranges_of_an_empty_object_are_empty(self, store: Store) -> None:
        store.put("empty", b"")
        assert store.get_range("empty", ByteRange(0, 1)) == b""
        assert store.get_ranges("empty", [ByteRange(0, 1), ByteRange(5, 5)]) == [b"", b""]

    def test_4_many_ranges_come_in_the_order_asked(self, store: Store) -> None:
        data = bytes(range(256)) * 4096
        store.put("big", data)
        spans = [ByteRange((at * 70_001) % len(data), at % 50) for at in range(60)]
        # Overlapping, touching, repeated, empty and past the end, all at once.
        spans += [
            ByteRange(0, 10),
            ByteRange(5, 10),
            ByteRange(15, 1),
            ByteRange(0, 10),
            ByteRange(len(data), 4),
            ByteRange(len(data) - 2, 9),
        ]
        assert store.get_ranges("big", spans) == [data[span.start : span.end] for span in spans]
        assert store.get_ranges("big", []) == []

    def test_5_lists_in_byte_order_of_the_whole_path(self, store: Store) -> None:
        self._fill(store)
        assert [info.path for info in store.list()] == sorted(_UNSORTED, key=str.encode)

    def test_5_a_prefix_is_any_beginning_of_a_path(self, store: Store) -> None:
        self._fill(store)
        for prefix in _PREFIXES:
            assert [info.path for info in store.list(prefix)] == _expected(prefix), prefix

    def test_5_start_after_is_exclusive(self, store: Store) -> None:
        self._fill(store)
        for prefix, after in product(("", "a", "a/", "log/", "log/00"), _AFTER):
            assert [info.path for info in store.list(prefix, after)] == _expected(prefix, after), (prefix, after)

    def test_5_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert list(store.list()) == []
        assert list(store.list("a/b")) == []

    def test_5_listing_and_head_agree(self, store: Store) -> None:
        store.put("x/y", b"12345")
        (listed,) = store.list("x/")
        head = store.head("x/y")
        # S3 lists milliseconds and heads whole seconds.
        assert (head.path, head.size, head.modified_ms // 1000) == ("x/y", 5, listed.modified_ms // 1000)
        assert (listed.path, listed.size) == ("x/y", 5)

    def test_6_reading_what_is_missing(self, store: Store) -> None:
        store.put("folder/object", b"x")
        for name in ("missing", "folder", "folder/missing", "folder/object/below"):
            for read in self._reads(store):
                with pytest.raises(NotFoundError, match=name):
                    read(name)

    def test_6_deleting(self, store: Store) -> None:
        for name in ("a", "b", "c/d"):
            store.put(name, b"x")
        store.delete(["missing", "a", "c/d", "c/missing"])
        store.delete(["a"])
        store.delete([])
        assert [info.path for info in store.list()] == ["b"]
        with pytest.raises(NotFoundError):
            store.get("a")

    def test_odd_names_are_kept_as_they_are(self, store: Store) -> None:
        for name in _ODD_NAMES:
            store.put(name, name.encode())
        assert [info.path for info in store.list()] == sorted(_ODD_NAMES)
        assert [[info.path for info in store.list(name)] for name in _ODD_NAMES] == [[name] for name in _ODD_NAMES]
        assert [store.get(name).decode() for name in _ODD_NAMES] == list(_ODD_NAMES)
        assert [store.head(name).path for name in _ODD_NAMES] == list(_ODD_NAMES)
        store.delete(_ODD_NAMES)
        assert list(store.list()) == []

    @pytest.mark.parametrize("name", _WRONG_NAMES)
    def test_wrong_names_are_refused(self, store: Store, name: str) -> None:
        writes = (partial(store.put, data=b""), partial(store.put_if_absent, data=b""), lambda path: store.delete([path]))
        calls: tuple[Callable[[str], object], ...] = (*self._reads(store), *writes)
        for call in calls:
            with pytest.raises(InvalidError, match="path="):
                call(name)

    def _fill(self, store: Store) -> None:
        for path in _UNSORTED:
            store.put(path, path.encode())

    def _reads(self, store: Store) -> tuple[Callable[[str], object], ...]:
        span = ByteRange(0, 1)
        return (store.get, lambda path: store.get_range(path, span), lambda path: store.get_ranges(path, [span]), store.head)


def _expected(prefix: str, after: str = "") -> list[str]:
    return sorted(path for path in _UNSORTED if path.startswith(prefix) and path > after)


def _names() -> list[str]:
    return [f"log/{number:04}" for number in range(_NAMES)]


def _together(*jobs: Callable[[], object]) -> None:
    """Runs the jobs in threads that start at the same moment; a failure in one is raised here."""
    start = Barrier(len(jobs))

    def run(job: Callable[[], object]) -> None:
        start.wait()
        job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for running in [pool.submit(run, job) for job in jobs]:
            running.result()
