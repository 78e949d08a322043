"""One driver for each system that a user would pick instead, all with the same verbs."""

from importlib import import_module

from benchmarks.peers.base import Peer, Place, Traffic, Unsupported

# By name, so that a peer is imported only in the process that is its own.
_WHERE = {
    "needlefish": ("needlefish", "Needlefish"),
    "duckdb": ("duckdb", "DuckDB"),
    "duckdb-cached": ("duckdb", "DuckDBCached"),
    "datafusion": ("datafusion", "DataFusion"),
    "polars": ("polars", "Polars"),
    "spark": ("spark", "Spark"),
    "deltalake": ("deltalake", "DeltaLake"),
    "pyiceberg": ("pyiceberg", "PyIceberg"),
    "lance-btree": ("lance", "LanceBTree"),
    "lance-bloom": ("lance", "LanceBloom"),
}
PEERS = tuple(_WHERE)
OURS = "needlefish"


def peer_type(name: str) -> type[Peer]:
    module, kind = _WHERE[name]
    found: type[Peer] = getattr(import_module(f"benchmarks.peers.{module}"), kind)
    return found


def setup_of(name: str) -> str:
    """How a peer is configured, in its own words; also where it is not installed."""
    try:
        return peer_type(name).setup
    except ImportError as error:
        return f"not installed: {error}"


def chosen_peers(text: str) -> tuple[str, ...]:
    """`all`, or names with commas; ours comes first, as all others are compared with it."""
    wanted = PEERS if text == "all" else tuple(name.strip() for name in text.split(","))
    unknown = sorted(set(wanted) - set(PEERS))
    if unknown:
        raise ValueError(f"--peers names {', '.join(unknown)}; known are {', '.join(PEERS)}")
    return tuple(name for name in PEERS if name in wanted)


__all__ = ["OURS", "PEERS", "Peer", "Place", "Traffic", "Unsupported", "chosen_peers", "peer_type", "setup_of"]
