"""From a URI to a store: bare, then metered per attempt, then retried."""

from collections.abc import Mapping

from needlefish.config import StoreConfig
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import durable, shapes
from needlefish.store.base import Store
from needlefish.store.clients import check_no_options, client_for
from needlefish.store.local import LocalStore
from needlefish.store.location import Location, locate
from needlefish.store.meter import Meter
from needlefish.store.metered import MeteredStore
from needlefish.store.object import ObjectStore
from needlefish.store.retried import RetriedStore
from needlefish.store.shapes import RequestShape


def open_store(config: StoreConfig, runtime: Runtime = SYSTEM, meter: Meter | None = None) -> RetriedStore:
    """Opens a store without asking it anything: a missing bucket or directory shows at the first operation."""
    location = locate(config.uri)
    bare = open_bare(location, config.options, runtime)
    absolute = StoreConfig(uri=location.uri, options=config.options, retry=config.retry)
    return layered(bare, config=absolute, runtime=runtime, meter=meter, shape=shape_of(location, config.options))


def layered(
    bare: Store,
    *,
    config: StoreConfig,
    runtime: Runtime = SYSTEM,
    meter: Meter | None = None,
    shape: RequestShape = shapes.LOCAL,
) -> RetriedStore:
    """The layers around any bare store; tests put a faulty one here."""
    return RetriedStore(MeteredStore(bare, meter or Meter(), shape), config, runtime)


def open_bare(location: Location, options: Mapping[str, str], runtime: Runtime = SYSTEM) -> Store:
    """The store itself: one attempt per call, nothing counted."""
    if location.backend == "local":
        check_no_options(location, options)
        return LocalStore(location.container, runtime)
    return ObjectStore(client_for(location, options), uri=location.uri, prefix=location.prefix, ordered=_lists_in_order(location))


def shape_of(location: Location, options: Mapping[str, str]) -> RequestShape:
    """How this location's calls become requests."""
    if location.backend == "s3" and not _bulk_delete(options):
        return shapes.S3_SINGLE_DELETE
    return _SHAPES[location.backend]


def sweep_staging(config: StoreConfig, before_ms: int) -> int:
    """Removes what killed writers left unfinished in a local store before a time; elsewhere there is nothing to see."""
    location = locate(config.uri)
    return durable.sweep(location.container, before_ms) if location.backend == "local" else 0


_SHAPES = {"local": shapes.LOCAL, "memory": shapes.MEMORY, "s3": shapes.S3, "gs": shapes.GS, "az": shapes.AZ}


def _lists_in_order(location: Location) -> bool:
    # Azure with a hierarchical namespace lists folder by folder, S3's directory buckets in no order at all.
    return location.backend != "az" and not (location.backend == "s3" and location.container.endswith("--x-s3"))


def _bulk_delete(options: Mapping[str, str]) -> bool:
    switches = ("aws_disable_bulk_delete", "disable_bulk_delete")
    return not any(options.get(switch, "").lower() in ("true", "1") for switch in switches)
