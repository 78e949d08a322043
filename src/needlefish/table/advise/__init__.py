"""The advisor: what a point index on a column would cost and save, from a sample of its granules, beside what there is."""

from needlefish.table.advise.report import Advice, Forecast, Measured
from needlefish.table.advise.run import advise

__all__ = ["Advice", "Forecast", "Measured", "advise"]
