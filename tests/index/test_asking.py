"""Several places asked: in order, and by as many threads as the store is worth."""

import os
import threading
from pathlib import Path

from needlefish.config import StoreConfig
from needlefish.index.asking import ask_each, read_each
from needlefish.store import open_store
from needlefish.testing.memory_store import MemoryStore


def names_of(store: object, asking: object, items: int) -> tuple[list[int], set[str]]:
    seen: set[str] = set()

    def ask(item: int) -> int:
        seen.add(threading.current_thread().name)
        return item * 10

    found = asking(store, ask, range(items))  # type: ignore[operator]
    return found, seen


def test_local_answers_come_in_order_from_few_threads(tmp_path: Path) -> None:
    store = open_store(StoreConfig(uri=str(tmp_path)))
    for items in (0, 1, 2, 5, 16):
        found, threads = names_of(store, read_each, items)
        assert found == [item * 10 for item in range(items)]
        assert len(threads) <= (os.cpu_count() or 1)
        found, threads = names_of(store, ask_each, items)
        assert found == [item * 10 for item in range(items)]
        assert threads <= {threading.current_thread().name}


def test_elsewhere_answers_come_in_order() -> None:
    for asking in (read_each, ask_each):
        found, _ = names_of(MemoryStore(), asking, 16)
        assert found == [item * 10 for item in range(16)]
