"""What the advisor says."""

from collections.abc import Sequence
from dataclasses import dataclass

_HEADINGS = ("kind", "by", "width", "bits a key", "bytes", "bytes a find", "requests", "false reads", "build s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An index that the table has: its size, and what finds of values that are not there read. Seconds only if it was built just now."""

    index: str
    bits_per_key: float
    bytes: int
    read_bytes: float
    requests: float
    false_reads: float
    build_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """One way to index the column. `read_bytes` and `requests` are of the index itself, for a find with a fresh handle."""

    kind: str
    granularity: str
    # Fingerprint bits of cuckoo filters, or the false reads that postings are declared with.
    width: str
    bits_per_key: float
    bytes: int
    read_bytes: int
    requests: int
    false_reads: float
    build_seconds: float
    measured: Measured | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Forecasts for one column or several together. `print(advice)` shows them as a table."""

    columns: tuple[str, ...]
    rows: int
    granules: int
    sampled_rows: int
    # Entries that an index would have: distinct values of every granule, added up.
    keys: int
    null_share: float
    # Granules that hold a value that is there, on average.
    granules_per_value: float
    forecasts: tuple[Forecast, ...]

    def __str__(self) -> str:
        lines: list[tuple[str, ...]] = [_HEADINGS]
        for found in self.forecasts:
            lines.append(_line(found))
            if found.measured is not None:
                lines.append(_measured_line(found.measured))
        return "\n".join([self.headline, *_aligned(lines)])

    @property
    def headline(self) -> str:
        seen = f"{self.sampled_rows:,} of {self.rows:,} rows seen"
        spread = f"a value is in {self.granules_per_value:,.1f} of {self.granules:,} granules"
        return f"{', '.join(self.columns)}: {self.keys:,} keys, {spread}, {self.null_share:.1%} null ({seen})"


def _line(found: Forecast) -> tuple[str, ...]:
    return (found.kind, found.granularity, found.width, *_numbers(found, found.build_seconds))


def _measured_line(found: Measured) -> tuple[str, ...]:
    return (f"  {found.index}", "", "measured", *_numbers(found, found.build_seconds))


def _numbers(found: Forecast | Measured, seconds: float | None) -> tuple[str, ...]:
    sizes = (f"{found.bits_per_key:.1f}", f"{found.bytes:,}", f"{found.read_bytes:,.0f}", f"{found.requests:.3g}")
    return (*sizes, f"{found.false_reads:.2g}", "-" if seconds is None else f"{seconds:.2g}")


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADINGS))]
    left = 3
    return [
        "  ".join(text.ljust(width) if at < left else text.rjust(width) for at, (text, width) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ]
