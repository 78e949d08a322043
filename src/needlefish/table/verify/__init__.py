"""Verifying: all that a table says of itself, compared with what is there.

Nothing is changed, nothing is believed, and no damage ends it: each becomes a `Problem` that names its object.
"""

from needlefish.table.verify.report import Problem, Verification
from needlefish.table.verify.run import verify_table

__all__ = ["Problem", "Verification", "verify_table"]
