"""Bytes by name: get, ranges, head, list, put, put-if-absent, delete; metered, retried, errors translated.

Promises the numbered contract of `Store` on every backend, which `needlefish.testing.store_contract` checks.
Must not know what the bytes mean: no formats, no tables, no log.
"""

from needlefish.store.base import ByteRange, ObjectInfo, Store
from needlefish.store.mapping import local_path
from needlefish.store.meter import Meter, Traffic, Usage
from needlefish.store.metered import MeteredStore
from needlefish.store.open import layered, open_store, sweep_staging
from needlefish.store.reader import SpanFile, StoreFile
from needlefish.store.retried import RetriedStore

__all__ = [
    "ByteRange",
    "Meter",
    "MeteredStore",
    "ObjectInfo",
    "RetriedStore",
    "SpanFile",
    "Store",
    "StoreFile",
    "Traffic",
    "Usage",
    "layered",
    "local_path",
    "open_store",
    "sweep_staging",
]
