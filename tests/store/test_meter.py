"""The meter tells the truth: what it counts is what a server sees."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import AlreadyExistsError, NotFoundError
from needlefish.store import ByteRange, Meter, RetriedStore, Store, Traffic, Usage, open_store
from needlefish.store.shapes import AZ, GS, PART_BYTES, S3, S3_SINGLE_DELETE, RequestShape
from needlefish.testing.s3 import S3Server


def _spent(store: RetriedStore, act: Callable[[], object]) -> Usage:
    before = store.meter.snapshot()
    act()
    return store.meter.snapshot() - before


def test_every_kind_is_counted_apart(tmp_path: Path) -> None:
    store = open_store(StoreConfig(uri=str(tmp_path)))
    store.put("a", b"12345")
    store.put_if_absent("b", b"123")
    store.get("a")
    store.get_range("a", ByteRange(1, 2))
    store.get_ranges("a", [ByteRange(0, 1), ByteRange(3, 9), ByteRange(2, 0)])
    store.head("a")
    list(store.list())
    store.delete(["a", "b"])
    assert store.meter.snapshot() == Usage(
        get=Traffic(requests=1, bytes=5),
        get_range=Traffic(requests=3, bytes=5),
        head=Traffic(requests=1),
        list=Traffic(requests=1),
        put=Traffic(requests=1, bytes=5),
        put_if_absent=Traffic(requests=1, bytes=3),
        delete=Traffic(requests=2),
    )
    assert (store.meter.snapshot().requests, store.meter.snapshot().bytes_read, store.meter.snapshot().bytes_written) == (10, 10, 8)


def test_refusals_are_counted(tmp_path: Path) -> None:
    store = open_store(StoreConfig(uri=str(tmp_path)))
    with pytest.raises(NotFoundError):
        store.get("missing")
    store.put_if_absent("a", b"12")
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("a", b"12")
    assert store.meter.snapshot() == Usage(get=Traffic(requests=1), put_if_absent=Traffic(requests=2, bytes=4))


def test_snapshots_add_and_subtract() -> None:
    meter = Meter()
    meter.add("get", 2, 10)
    first = meter.snapshot()
    meter.add("get", 1, 5)
    meter.add("list", 1, 0)
    assert meter.snapshot() - first == Usage(get=Traffic(requests=1, bytes=5), list=Traffic(requests=1))
    assert first + (meter.snapshot() - first) == meter.snapshot()


def test_a_store_apart_counts_from_zero(tmp_path: Path) -> None:
    store = open_store(StoreConfig(uri=str(tmp_path)))
    store.put("a", b"x")
    apart = store.apart()
    assert apart.get("a") == b"x"
    assert (apart.meter.snapshot().requests, store.meter.snapshot().requests) == (1, 1)


def test_threads_lose_no_count() -> None:
    meter = Meter()

    def add() -> None:
        for _ in range(20_000):
            meter.add("get_range", 1, 3)

    threads = [Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.snapshot() == Usage(get_range=Traffic(requests=80_000, bytes=240_000))


def _fill(store: Store, objects: int) -> None:
    for number in range(objects):
        store.put(f"many/{number:04}", b"x")


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.put("small", bytes(1000)),
        lambda store: store.put("large", bytes(2 * PART_BYTES + 1)),
        lambda store: store.put_if_absent("large", bytes(PART_BYTES + 1)),
        lambda store: store.get("object"),
        lambda store: store.head("object"),
        lambda store: store.get_range("object", ByteRange(5, 5)),
        lambda store: store.get_range("object", ByteRange(5, 0)),
        lambda store: store.get_ranges("object", [ByteRange(500_000, 10), ByteRange(0, 10), ByteRange(20, 10)]),
        lambda store: list(store.list("many/")),
        lambda store: list(store.list("nothing/")),
        lambda store: store.delete([f"many/{number:04}" for number in range(1001)]),
        lambda store: store.delete([]),
    ],
)
def test_the_server_saw_as_many_requests(s3: S3Server, fresh_name: str, act: Callable[[Store], object]) -> None:
    store = open_store(s3.config(fresh_name))
    store.put("object", bytes(600_000))
    before = s3.requests()
    spent = _spent(store, lambda: act(store))
    assert spent.requests == s3.requests() - before


def test_a_long_listing_is_counted_by_the_page(s3: S3Server, fresh_name: str) -> None:
    store = open_store(s3.config(fresh_name))
    _fill(store, 1001)
    before = s3.requests()
    assert _spent(store, lambda: list(store.list("many/"))).list.requests == s3.requests() - before == 2
    # The second page is asked for by whoever gets that far.
    assert _spent(store, lambda: next(store.list("many/"))).list.requests == 1


def test_near_ranges_are_one_request_and_its_bytes_all_count(s3: S3Server, fresh_name: str) -> None:
    store = open_store(s3.config(fresh_name))
    store.put("object", bytes(600_000))
    near = _spent(store, lambda: store.get_ranges("object", [ByteRange(1000, 10), ByteRange(0, 10)]))
    far = _spent(store, lambda: store.get_ranges("object", [ByteRange(500_000, 10), ByteRange(0, 10)]))
    assert (near.get_range, far.get_range) == (Traffic(requests=1, bytes=1010), Traffic(requests=2, bytes=20))


@pytest.mark.parametrize(("shape", "keys", "expected"), [(S3, 1001, 2), (S3_SINGLE_DELETE, 7, 7), (GS, 7, 7), (AZ, 257, 2), (S3, 0, 0)])
def test_deletions_by_backend(shape: RequestShape, keys: int, expected: int) -> None:
    assert shape.delete_requests(keys) == expected


def test_without_bulk_delete_each_object_is_a_request(s3: S3Server, fresh_name: str) -> None:
    config = s3.config(fresh_name)
    store = open_store(StoreConfig(uri=config.uri, options={**config.options, "aws_disable_bulk_delete": "true"}))
    _fill(store, 3)
    before = s3.requests()
    spent = _spent(store, lambda: store.delete([f"many/{number:04}" for number in range(3)]))
    assert spent.delete.requests == s3.requests() - before == 3
