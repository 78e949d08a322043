"""What local disks add: durability, staged files, folders that do not exist yet."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import AlreadyExistsError, InvalidError, NotFoundError
from needlefish.runtime import SYSTEM
from needlefish.store import ByteRange, local_path, open_store, sweep_staging
from needlefish.store.local import LocalStore

_ENDLESS_WRITER = """
import itertools, sys
from needlefish.config import StoreConfig
from needlefish.store import open_store

store = open_store(StoreConfig(uri=sys.argv[1]))
for number in itertools.count():
    (store.put if number % 2 else store.put_if_absent)(f"data/{number}", b"%d" % (number % 10) * 300_000)
    if number == 20:
        print("going", flush=True)
"""


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the store asks of the kernel, in order; file names without the number of the staged one."""
    seen: list[str] = []
    opened: dict[int, str] = {}
    real_open = os.open

    def spy_open(path: str, flags: int, mode: int = 0o777) -> int:
        handle = real_open(path, flags, mode)
        opened[handle] = path
        return handle

    def spy(name: str, real: object) -> None:
        def call(*args: object) -> object:
            place = opened[args[0]] if name == "fsync" else args[-1]  # type: ignore[index]
            seen.append(f"{name} {Path(str(place)).name.partition('#')[0]}")
            return real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, call)

    monkeypatch.setattr(os, "open", spy_open)
    for name in ("fsync", "link", "replace", "mkdir", "unlink"):
        spy(name, getattr(os, name))
    return seen


def test_bytes_are_durable_before_their_name_and_the_name_before_success(tmp_path: Path, events: list[str]) -> None:
    store = LocalStore(str(tmp_path))
    store.put_if_absent("entry", b"x")
    assert events == ["fsync entry", "link entry", "unlink entry", f"fsync {tmp_path.name}"]
    events.clear()
    store.put("entry", b"y")
    assert events == ["fsync entry", "replace entry", f"fsync {tmp_path.name}"]


def test_new_folders_are_durable_before_what_is_in_them(tmp_path: Path, events: list[str]) -> None:
    LocalStore(str(tmp_path)).put("a/b/entry", b"x")
    made = [event for event in events if not event.endswith("entry")]
    assert made == ["mkdir a", f"fsync {tmp_path.name}", "mkdir b", "fsync a", "fsync b"]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    store = LocalStore(str(tmp_path))
    store.put("a", b"old")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Exception, match="No space left"):
        store.put("a", b"new")
    assert os.listdir(tmp_path) == ["a"]
    assert store.get("a") == b"old"


def test_a_lost_race_leaves_nothing(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put_if_absent("a", b"first")
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("a", b"second")
    assert os.listdir(tmp_path) == ["a"]


def test_staged_files_are_not_listed_and_get_swept(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put("log/1", b"x")
    for name, modified in (("1#1", 1_000), ("2#17", 1_000), ("3#5", 9_000)):
        (tmp_path / "log" / name).write_bytes(b"torn")
        os.utime(tmp_path / "log" / name, (modified, modified))
    assert [info.path for info in store.list()] == ["log/1"]
    assert sweep_staging(StoreConfig(uri=str(tmp_path)), before_ms=5_000_000) == 2
    assert sorted(os.listdir(tmp_path / "log")) == ["1", "3#5"]
    assert sweep_staging(StoreConfig(uri="memory://nothing"), before_ms=1) == 0


def test_a_leftover_does_not_block_the_name(tmp_path: Path) -> None:
    """Two writers whose chance repeats: the second counts on until it finds a free staging name."""

    class Same:
        def getrandbits(self, bits: int) -> int:
            return 7

    (tmp_path / "a#7").write_bytes(b"left by a killed writer")
    runtime = type("Fixed", (), {"chance": Same()})()
    LocalStore(str(tmp_path), runtime).put_if_absent("a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"
    assert (tmp_path / "a#7").exists()


@pytest.mark.parametrize("turn", range(3))
def test_sigkill_leaves_whole_objects_only(tmp_path: Path, turn: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writer = subprocess.Popen([sys.executable, "-c", _ENDLESS_WRITER, str(tmp_path)], env=environment, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"going\n"
    SYSTEM.clock.sleep(0.003 * turn)
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    store = open_store(StoreConfig(uri=str(tmp_path)))
    numbers = [int(info.path.removeprefix("data/")) for info in store.list("data/")]
    assert sorted(numbers) == list(range(len(numbers)))
    assert all(store.get(f"data/{number}") == b"%d" % (number % 10) * 300_000 for number in numbers)
    store.put_if_absent(f"data/{len(numbers)}", b"next")


def test_reading_makes_no_directory(tmp_path: Path) -> None:
    root = tmp_path / "absent"
    store = open_store(StoreConfig(uri=str(root)))
    assert list(store.list()) == []
    store.delete(["a"])
    for read in (store.get, store.head):
        with pytest.raises(NotFoundError):
            read("a")
    assert not root.exists()
    store.put("a", b"x")
    assert root.is_dir()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    store.put("a/b", b"x")
    for write in (store.put, store.put_if_absent):
        with pytest.raises(InvalidError, match="in its way"):
            write("a/b/c", b"x")
        with pytest.raises(InvalidError, match="in its way"):
            write("a", b"x")
    assert sorted(os.listdir(tmp_path)) == ["a"]


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel hands out at most 2 GiB at once; three bytes show the same."""
    store = LocalStore(str(tmp_path))
    store.put("a", b"0123456789")
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, length, start: real(handle, min(length, 3), start))
    assert store.get("a") == b"0123456789"
    assert store.get_range("a", ByteRange(2, 7)) == b"2345678"


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    store.put("a", b"x")
    for _ in range(50):
        store.get("a")
        with pytest.raises(NotFoundError):
            store.get("missing")
        with pytest.raises(AlreadyExistsError):
            store.put_if_absent("a", b"y")
    assert len(os.listdir("/proc/self/fd")) == before


def test_local_paths_lead_to_the_bytes(tmp_path: Path) -> None:
    store = open_store(StoreConfig(uri=str(tmp_path)))
    store.put("data/x.parquet", b"bytes")
    found = local_path(store, "data/x.parquet")
    assert found is not None
    assert Path(found).read_bytes() == b"bytes"
    assert local_path(open_store(StoreConfig(uri="memory://m")), "data/x.parquet") is None
