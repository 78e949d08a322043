"""Numbers and times as people read them."""

from datetime import UTC, datetime

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_text(count: int) -> str:
    """`1.2 MiB`: three figures are enough to compare by eye."""
    if count < 1024:
        return f"{count:,} B"
    size = float(count)
    for unit in _UNITS:
        size /= 1024
        # 999.5 would be rounded to a fourth figure.
        if size < 999.5 or unit == _UNITS[-1]:
            break
    return f"{size:.1f} {unit}" if size < 99.95 else f"{size:,.0f} {unit}"


def counted(count: int, noun: str) -> str:
    """`1 file`, `2,000 files`, `3 queries`, `4 keys`."""
    plural = noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"
    return f"{count:,} {noun if count == 1 else plural}"


def time_text(timestamp_ms: int) -> str:
    """In UTC, down to the millisecond, so that a copied time opens exactly that version."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def seconds_text(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
