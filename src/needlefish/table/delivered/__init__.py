"""Rows as an engine happens to deliver them: unsorted, of many partitions, the same key in several tasks.

Each task sorts and writes its own; whoever commits finds the keys that several of them have.
"""

from needlefish.table.delivered.commit import Delivery, commit_attempt, commit_delivery
from needlefish.table.delivered.task import DeliveryTask

__all__ = ["Delivery", "DeliveryTask", "commit_attempt", "commit_delivery"]
