"""Every store, and every layer around one, passes the contract."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import obstore.store
import pytest

from needlefish.config import StoreConfig
from needlefish.store import ByteRange, Meter, MeteredStore, ObjectInfo, Store, StoreFile, open_store
from needlefish.store.local import LocalStore
from needlefish.store.location import locate
from needlefish.store.object import ObjectStore
from needlefish.store.open import open_bare
from needlefish.store.shapes import S3
from needlefish.testing.faulty_store import FaultyStore
from needlefish.testing.s3 import S3Server
from needlefish.testing.store_contract import StoreContract


class ThroughFile:
    """Reads through StoreFile, does the rest on the store below."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.uri = inner.uri
        self.put, self.put_if_absent, self.delete, self.head = inner.put, inner.put_if_absent, inner.delete, inner.head

    def get(self, path: str) -> bytes:
        return StoreFile(self._inner, path).read()

    def get_range(self, path: str, span: ByteRange) -> bytes:
        file = StoreFile(self._inner, path) if span.length else StoreFile(self._inner, path, size=0)
        file.seek(span.start)
        buffer = bytearray(min(span.length, file.size))
        return bytes(buffer[: file.readinto(buffer)])

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        return [self.get_range(path, span) for span in spans]

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        return self._inner.list(prefix, start_after)


class TestLocal(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return LocalStore(str(tmp_path / "not" / "yet" / "there"))


class TestLocalOpened(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store(StoreConfig(uri=str(tmp_path)))


class TestFileUri(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store(StoreConfig(uri=(tmp_path / "with space").as_uri()))


class TestLocalWithoutBypass(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return ObjectStore(obstore.store.LocalStore(tmp_path), uri=str(tmp_path), ordered=False)


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self, fresh_name: str) -> Store:
        return open_store(StoreConfig(uri=f"memory://{fresh_name}"))


class TestMemoryBelowAPrefix(StoreContract):
    @pytest.fixture
    def store(self, fresh_name: str) -> Store:
        neighbour = open_store(StoreConfig(uri=f"memory://{fresh_name}"))
        neighbour.put("tables/t-old/x", b"not in the table")
        return open_store(StoreConfig(uri=f"memory://{fresh_name}/tables/t"))


class TestS3(StoreContract):
    @pytest.fixture
    def store(self, s3: S3Server, fresh_name: str) -> Store:
        return open_store(s3.config(f"lake/{fresh_name}"))


class TestS3Bare(StoreContract):
    @pytest.fixture
    def store(self, s3: S3Server, fresh_name: str) -> Store:
        config = s3.config(fresh_name)
        return open_bare(locate(config.uri), config.options)


class TestMetered(StoreContract):
    """With the shape of S3, whose ranges are joined, over files that show at once if they are cut wrong."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return MeteredStore(LocalStore(str(tmp_path)), Meter(), S3)


class TestStoreFile(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return ThroughFile(LocalStore(str(tmp_path)))


class TestFaultlessFaultyStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FaultyStore(LocalStore(str(tmp_path)))
