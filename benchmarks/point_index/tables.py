"""The experiments as tables for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.point_index.budgets import Budget

Row = Mapping[str, Any]


def tables(result: Mapping[str, Any], budgets: Sequence[Budget]) -> list[Table]:
    """One for each experiment that was run, and the budgets at the end."""
    makers = {"latency": _latency, "buckets": _buckets, "rates": _rates, "readers": _readers, "build": _build, "s3": _s3, "lance": _lance}
    return [make(result[name]) for name, make in makers.items() if name in result] + [_judged(budgets)]


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> Table:
    """The first `texts` columns are words, the others numbers."""
    table = Table(title=title)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < texts else "right")
    for row in rows:
        table.add_row(*(_shown(cell) for cell in row))
    return table


def _shown(cell: object) -> str:
    if isinstance(cell, float) and 0 < abs(cell) < 0.01:
        return f"{cell:.2e}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1_000 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _latency(rows: list[Row]) -> Table:
    headings = (
        "kind",
        "partitions",
        "values",
        "file MB",
        "warm p50",
        "p90",
        "fresh p50",
        "p90",
        "requests",
        "bytes",
        "copy",
        "sum",
        "ratio",
    )
    return _table("One probe on a local store, microseconds", headings, (_latency_row(row) for row in rows))


def _latency_row(row: Row) -> tuple[object, ...]:
    warm, fresh = row["warm"], row["fresh"]
    memory = max(row["copy_us"], row["sum_us"])
    beside = (row["copy_us"], row["sum_us"], warm["p50_us"] / memory) if memory else ("", "", "")
    size = (row["kind"], row["partitions"], row["values"], row["file_bytes"] / 1e6)
    return (*size, warm["p50_us"], warm["p90_us"], fresh["p50_us"], fresh["p90_us"], warm["requests"], warm["bytes"], *beside)


def _buckets(found: Row) -> Table:
    title = f"Buckets, {found['partitions']:,} partitions of {found['values']:,} values"
    headings = ("kind", "buckets", "occupancy", "slots", "grown", "p50 us", "p90 us", "bytes", "bits per key")
    names = ("p50_us", "p90_us", "bytes", "bits_per_key")
    cuckoo = [("cuckoo", *(row[name] for name in ("buckets", "occupancy", "slots", "grown", *names))) for row in found["cuckoo"]]
    return _table(title, headings, [*cuckoo, ("postings", "", "", "", "", *(found["postings"][name] for name in names))])


def _rates(found: Mapping[str, list[Row]]) -> Table:
    names = ("trials", "found", "measured", "error", "promised", "deviations")
    cuckoo = [("cuckoo", f"{row['bits']} bits, {row['buckets']:,} buckets", *(row[name] for name in names)) for row in found["cuckoo"]]
    postings = [("postings", f"{row['declared']} false reads", *(row[name] for name in names)) for row in found["postings"]]
    return _table("False answers: of a filter, and of a find", ("kind", "layout", *names), cuckoo + postings, texts=2)


def _readers(rows: list[Row]) -> Table:
    names = ("kind", "readers", "threads_per_s", "processes_per_s")
    return _table(
        "Readers at once, probes per second", ("kind", "readers", "threads", "processes"), ([row[name] for name in names] for row in rows)
    )


def _build(found: Mapping[str, list[Row]]) -> Table:
    names = ("keys_per_s", "keys_per_cpu_s", "one_builder_keys_per_s", "filters_keys_per_s", "durable_keys_per_s")
    built = [
        (row["kind"], f"build, {row['values']:,} values each", row["keys"], *(_millions(row, name) for name in names))
        for row in found["build"]
    ]
    merged = [(row["kind"], f"merge of {row['runs']}", row["keys"], _millions(row, "keys_per_s"), "", "", "", "") for row in found["merge"]]
    bits = [_bits_row(row) for row in found["bits"]]
    headings = ("kind", "what", "keys", "M keys/s (bits)", "per CPU s (predicted)", "one builder", "filters alone", "durable put")
    return _table("Build from hashes", headings, built + merged + bits, texts=2)


def _bits_row(row: Row) -> tuple[object, ...]:
    what = f"bits per key, {row['granules']:,} x {row['values']:,}, f = {row['false_reads']:.3g}"
    return row["kind"], what, row["granules"] * row["values"], row["bits_per_key"], row["predicted"], "", "", ""


def _millions(row: Row, name: str) -> object:
    return row[name] / 1e6 if name in row else ""


def _s3(rows: list[Row]) -> Table:
    names = ("kind", "partitions", "keys", "file_bytes", "requests", "most_requests", "bytes", "most_bytes", "requests_the_server_saw")
    return _table("A cold probe on S3", [name.replace("_", " ") for name in names], ([row[name] for name in names] for row in rows))


def _lance(found: Row) -> Table:
    lance = found["lance"]
    rows = [("Lance BTREE", lance["rows_per_s"] / 1e6, "", lance["bytes"] / 1e6, 1.0, 1.0)]
    for row in found["ours"]:
        column, hashes = row["from_column_rows_per_s"], row["from_hashes_rows_per_s"]
        sizes = (row["bytes"] / 1e6, column / lance["rows_per_s"], lance["bytes"] / row["bytes"])
        rows.append((row["kind"], column / 1e6, hashes / 1e6, *sizes))
    headings = ("index", "M rows/s from the column", "from hashes", "MB", "faster than Lance", "smaller than Lance")
    return _table(f"Build of {found['rows']:,} ids", headings, rows)


def _judged(budgets: Sequence[Budget]) -> Table:
    rows = [(budget.what, budget.budget, budget.measured, "met" if budget.met else "[red]missed[/red]") for budget in budgets]
    return _table("Budgets", ("what", "budget", "measured", ""), rows)
