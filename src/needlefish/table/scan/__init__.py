"""Reading a lot without Spark: which chunksets and granules may match, then their rows, in bounded memory."""

from needlefish.table.scan.plan import ScanPlan, ScanRequest, plan_scan
from needlefish.table.scan.receipt import ScanReceipt
from needlefish.table.scan.rows import scan_batches

__all__ = ["ScanPlan", "ScanReceipt", "ScanRequest", "plan_scan", "scan_batches"]
