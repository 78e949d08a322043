"""Fresh memory stores for tables built without Spark."""

from itertools import count

import pytest

from needlefish.config import StoreConfig
from needlefish.store import RetriedStore, open_store

_numbers = count()


@pytest.fixture
def store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://table-{next(_numbers)}"))
