"""One definition each of the data and of the questions asked of it; every peer gets the same rows and the same values."""

from benchmarks.workloads.base import Sizes, Workload
from benchmarks.workloads.events import Events
from benchmarks.workloads.orders import Orders
from benchmarks.workloads.requests import Requests

WORKLOADS: dict[str, type[Workload]] = {kind.name: kind for kind in (Requests, Events, Orders)}

__all__ = ["WORKLOADS", "Sizes", "Workload"]
