"""A store against a dict: whatever the order of operations, both hold the same objects."""

import shutil
import tempfile
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from needlefish.config import StoreConfig
from needlefish.errors import AlreadyExistsError, NotFoundError
from needlefish.store import ByteRange, Store, open_store

# Few letters, so that names collide and nest; '-' and '0' sort on either side of the slash.
_SEGMENT = st.text("a-0é", min_size=1, max_size=2)
# Files end in a dot: a file system cannot hold `a` beside `a/b`, and this model is for both.
_PATH = st.builds(lambda parts: "/".join(parts) + ".", st.lists(_SEGMENT, min_size=1, max_size=3))
_PREFIX = st.one_of(st.just(""), _SEGMENT, st.builds(lambda path: path[:-1], _PATH), st.builds(lambda part: f"{part}/", _SEGMENT))
_DATA = st.binary(max_size=12)
_names = count()


class Model(RuleBasedStateMachine):
    """Subclasses say which store."""

    def open(self) -> Store:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.store = self.open()
        self.held: dict[str, bytes] = {}

    @rule(path=_PATH, data=_DATA)
    def put(self, path: str, data: bytes) -> None:
        self.store.put(path, data)
        self.held[path] = data

    @rule(path=_PATH, data=_DATA)
    def put_if_absent(self, path: str, data: bytes) -> None:
        if path in self.held:
            with pytest.raises(AlreadyExistsError):
                self.store.put_if_absent(path, data)
        else:
            self.store.put_if_absent(path, data)
            self.held[path] = data

    @rule(paths=st.lists(_PATH, max_size=3))
    def delete(self, paths: list[str]) -> None:
        self.store.delete(paths)
        self.held = {path: data for path, data in self.held.items() if path not in paths}

    @rule(path=_PATH, start=st.integers(0, 14), length=st.integers(0, 14))
    def read(self, path: str, start: int, length: int) -> None:
        if path in self.held:
            assert self.store.get(path) == self.held[path]
            assert self.store.get_range(path, ByteRange(start, length)) == self.held[path][start : start + length]
            assert self.store.head(path).size == len(self.held[path])
        else:
            with pytest.raises(NotFoundError):
                self.store.get(path)

    @rule(prefix=_PREFIX, after=st.one_of(st.none(), _PREFIX, _PATH))
    def list(self, prefix: str, after: str | None) -> None:
        expected = sorted(path for path in self.held if path.startswith(prefix) and path > (after or ""))
        assert [info.path for info in self.store.list(prefix, after)] == expected

    @invariant()
    def holds_the_same(self) -> None:
        assert {info.path: info.size for info in self.store.list()} == {path: len(data) for path, data in self.held.items()}


class LocalModel(Model):
    def open(self) -> Store:
        self.root = tempfile.mkdtemp()
        return open_store(StoreConfig(uri=self.root))

    def teardown(self) -> None:
        shutil.rmtree(self.root)


class MemoryModel(Model):
    def open(self) -> Store:
        return open_store(StoreConfig(uri=f"memory://model-{next(_names)}/below"))


@pytest.mark.parametrize("model", [LocalModel, MemoryModel])
def test_the_store_is_a_dict(model: type[Model]) -> None:
    run_state_machine_as_test(model, settings=settings(max_examples=60, stateful_step_count=25, deadline=None))
