"""Tries again what failed for now, ever more slowly. Only UnavailableError is worth another attempt.

A conditional put is repeated as well: its first attempt may have landed although the answer was lost, so that
AlreadyExistsError can mean one's own write. Callers recognise it by content (the log by its writer token).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, TypeVarTuple

from needlefish.config import StoreConfig
from needlefish.errors import UnavailableError
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store.base import ByteRange, ObjectInfo
from needlefish.store.meter import Meter
from needlefish.store.metered import MeteredStore

Args = TypeVarTuple("Args")
R = TypeVar("R")


class RetriedStore:
    """What `open_store` hands out. `config` opens the same store elsewhere, whatever the working directory there."""

    def __init__(self, inner: MeteredStore, config: StoreConfig, runtime: Runtime = SYSTEM) -> None:
        self._inner = inner
        self._config = config
        self._runtime = runtime

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def config(self) -> StoreConfig:
        return self._config

    @property
    def meter(self) -> Meter:
        return self._inner.meter

    def apart(self) -> "RetriedStore":
        """The same store over the same connections with a meter of its own, so that one scan's receipt is its own."""
        return RetriedStore(self._inner.apart(), self._config, self._runtime)

    def local_path(self, path: str) -> str | None:
        return self._inner.local_path(path)

    def get(self, path: str) -> bytes:
        return self._retried(self._inner.get, path)

    def get_range(self, path: str, span: ByteRange) -> bytes:
        return self._retried(self._inner.get_range, path, span)

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        return self._retried(self._inner.get_ranges, path, spans)

    def head(self, path: str) -> ObjectInfo:
        return self._retried(self._inner.head, path)

    def put(self, path: str, data: bytes) -> None:
        self._retried(self._inner.put, path, data)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._retried(self._inner.put_if_absent, path, data)

    def delete(self, paths: Iterable[str]) -> None:
        self._retried(self._inner.delete, list(paths))

    def _retried(self, call: Callable[[*Args], R], *args: *Args) -> R:
        # The first attempt stands alone: the hot local read pays for one more call and nothing else.
        try:
            return call(*args)
        except UnavailableError as error:
            return self._again(call, args, error)

    def _again(self, call: Callable[[*Args], R], args: tuple[*Args], failure: UnavailableError) -> R:
        for wait in self._waits():
            self._runtime.clock.sleep(wait)
            try:
                return call(*args)
            except UnavailableError as error:
                failure = error
        raise failure

    def _waits(self) -> Iterator[float]:
        retry = self._config.retry
        for failed in range(retry.attempts - 1):
            yield self._runtime.jitter(min(retry.base_seconds * 2**failed, retry.cap_seconds))

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Goes on behind the last entry it handed out; the patience begins anew with every entry that arrives."""
        waits = self._waits()
        while True:
            try:
                for info in self._inner.list(prefix, start_after):
                    waits, start_after = self._waits(), info.path
                    yield info
                return
            except UnavailableError:
                if (wait := next(waits, None)) is None:
                    raise
            self._runtime.clock.sleep(wait)
