"""Figures from a kept result: cuckoo and postings side by side in each. PNG and SVG, in benchmarks/plots."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.point_index.bar_plots import build_figure, lance_figure, s3_figure
from benchmarks.point_index.style import COLOURS, GREY, MARKERS, figure, label, save

Row = Mapping[str, Any]
_KINDS = ("cuckoo", "postings")
# Published for 16-bit fingerprints, 38,000 buckets and 100,000 values each, on a laptop: partitions and microseconds.
_PUBLISHED = ((100_000, 527), (1_000_000, 17_800))
_SHADES = ("#f2b8a0", "#e08763", "#c8553d", "#8f3324", "#571c12")


def draw(result: Mapping[str, Any], name: str) -> list[Path]:
    """All figures whose experiment the result has."""
    makers: Mapping[str, tuple[str, Callable[[Any], Figure]]] = {
        "partitions": ("latency", _partitions),
        "bandwidth": ("latency", _bandwidth),
        "buckets": ("buckets", _buckets),
        "rates": ("rates", _rates),
        "readers": ("readers", _readers),
        "build": ("build", build_figure),
        "s3": ("s3", s3_figure),
        "lance": ("lance", lance_figure),
    }
    return [path for part, (key, make) in makers.items() if key in result for path in save(make(result[key]), f"{name}_{part}")]


def _of(rows: list[Row], kind: str) -> list[Row]:
    return sorted((row for row in rows if row["kind"] == kind), key=lambda row: (row["partitions"], row["values"]))


def _same_file(rows: list[Row], kind: str) -> list[Row]:
    """Those that share the same keys in all; filters of the published size are marked apart."""
    found = _of(rows, kind)
    keys = [row["partitions"] * row["values"] for row in found]
    usual = max(keys, key=keys.count)
    return [row for row, total in zip(found, keys, strict=True) if 0.9 * usual < total < 1.1 * usual]


def _partitions(rows: list[Row]) -> Figure:
    found, (times, sizes) = figure("One probe against the number of partitions (local store, files in the page cache)", 2)
    for kind in _KINDS:
        line, look = _same_file(rows, kind), {"color": COLOURS[kind], "marker": MARKERS[kind]}
        across = [row["partitions"] for row in line]
        times.plot(across, [row["warm"]["p50_us"] for row in line], label=f"{kind}, warm p50", **look)
        times.plot(across, [row["warm"]["p90_us"] for row in line], label=f"{kind}, warm p90", linestyle="--", linewidth=1, **look)
        times.plot(across, [row["fresh"]["p50_us"] for row in line], label=f"{kind}, fresh reader p50", linestyle=":", linewidth=1, **look)
        sizes.plot(across, [row["warm"]["bytes"] for row in line], label=f"{kind}, {_requests(line)} a probe", **look)
        apart = [row for row in _of(rows, kind) if row not in line]
        filled = {"color": COLOURS[kind], "marker": "*", "markersize": 9, "linestyle": "none"}
        text = f"{kind}, 100,000 values each"
        times.plot([row["partitions"] for row in apart], [row["warm"]["p50_us"] for row in apart], label=text, **filled)
        sizes.plot([row["partitions"] for row in apart], [row["warm"]["bytes"] for row in apart], label=text, **filled)
    times.plot(*zip(*_PUBLISHED, strict=True), "x", color=GREY, label="cuckoo, published (laptop)")
    for axes in (times, sizes):
        axes.set(xscale="log", yscale="log")
        axes.legend()
    label(times, "Latency", "partitions", "microseconds")
    label(sizes, "Bytes read by a warm probe", "partitions", "bytes")
    return found


def _requests(line: list[Row]) -> str:
    return f"{max(row['warm']['requests'] for row in line):.1f} requests"


def _bandwidth(rows: list[Row]) -> Figure:
    found, (times, ratios) = figure("A cuckoo probe against memory bandwidth for its bytes", 2)
    cuckoo = sorted(_of(rows, "cuckoo"), key=lambda row: row["warm"]["bytes"])
    across = [row["warm"]["bytes"] / 1024 for row in cuckoo]
    times.plot(across, [row["warm"]["p50_us"] for row in cuckoo], color=COLOURS["cuckoo"], marker="o", label="cuckoo, warm probe p50")
    times.plot(across, [row["copy_us"] for row in cuckoo], color=GREY, marker=".", label="np.copyto of the same bytes")
    times.plot(across, [row["sum_us"] for row in cuckoo], color=GREY, marker=".", linestyle=":", label="sum of the same bytes")
    postings = max(row["warm"]["p50_us"] for row in _of(rows, "postings"))
    times.axhline(postings, color=COLOURS["postings"], linestyle="--", label="postings, slowest p50 of all sizes")
    ratios.plot(
        across, [row["warm"]["p50_us"] / row["copy_us"] for row in cuckoo], color=COLOURS["cuckoo"], marker="o", label="probe / copy"
    )
    ratios.plot(
        across,
        [row["warm"]["p50_us"] / row["sum_us"] for row in cuckoo],
        color=COLOURS["cuckoo"],
        marker="o",
        linestyle=":",
        label="probe / sum",
    )
    ratios.axhline(2, color=GREY, linestyle="--", linewidth=1, label="budget, where bytes dominate")
    for axes in (times, ratios):
        axes.set(xscale="log", yscale="log")
        axes.legend()
    label(times, "Time", "KiB read by a probe", "microseconds")
    label(ratios, "Ratio", "KiB read by a probe", "times")
    return found


def _buckets(result: Row) -> Figure:
    title = f"The number of buckets, {result['partitions']:,} partitions of {result['values']:,} values, 16-bit fingerprints"
    found, panels = figure(title, 3)
    across = [row["buckets"] for row in result["cuckoo"]]
    ups = (("Latency of a warm probe", "microseconds, p50", "p50_us"), ("Occupancy", "share of slots taken", "occupancy"))
    for axes, (heading, up, name) in zip(panels, (*ups, ("Size", "bits per key", "bits_per_key")), strict=True):
        axes.plot(across, [row[name] for row in result["cuckoo"]], color=COLOURS["cuckoo"], marker="o", label="cuckoo")
        # Elias-Fano has no empty places: every one is taken.
        reference = result["postings"].get(name, 1.0)
        text = "postings" if name in result["postings"] else "postings (no empty slots)"
        axes.axhline(reference, color=COLOURS["postings"], linestyle="--", label=text)
        axes.axvline(0.38 * result["values"], color=GREY, linewidth=0.8, linestyle=":", label="0.38 buckets a value")
        axes.set(xscale="log", ylim=(0, None))
        axes.legend()
        label(axes, heading, "buckets", up)
    return found


def _rates(result: Mapping[str, list[Row]]) -> Figure:
    found, (cuckoo, postings) = figure("False answers, measured against promised (bars: two standard errors)", 2)
    widths = sorted({row["bits"] for row in result["cuckoo"]})
    for bits, colour in zip(widths, _SHADES, strict=True):
        rows = [row for row in result["cuckoo"] if row["bits"] == bits and row["found"]]
        _points(cuckoo, rows, colour, f"cuckoo, {bits} bits" + ("" if rows else ": none found"))
    _points(postings, result["postings"], COLOURS["postings"], "postings")
    for axes, text in ((cuckoo, "2b / 2^bits x occupancy"), (postings, "declared false reads")):
        low, high = axes.get_xlim()
        axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, label="as promised")
        axes.set(xscale="log", yscale="log")
        axes.legend()
        label(axes, "", text, "measured")
    cuckoo.set_title("Cuckoo: rate of one filter, buckets 1,024 to 8,192", loc="left")
    postings.set_title("Postings: false granules a find", loc="left")
    return found


def _points(axes: Axes, rows: list[Row], colour: str, text: str) -> None:
    across, up = [row["promised"] for row in rows], [row["measured"] for row in rows]
    errors = [min(2 * row["error"], 0.9 * row["measured"]) for row in rows]
    axes.set(xscale="log", yscale="log")
    axes.errorbar(across, up, yerr=errors, fmt="o", color=colour, capsize=2, markersize=3.5, linewidth=1, label=text)


def _readers(rows: list[Row]) -> Figure:
    found, panels = figure("Readers at once (10,000 partitions)", 2)
    for axes, (name, heading) in zip(panels, (("threads_per_s", "Threads of one process"), ("processes_per_s", "Processes")), strict=True):
        for kind in _KINDS:
            line = [row for row in rows if row["kind"] == kind]
            up = [row[name] / 1000 for row in line]
            axes.plot([row["readers"] for row in line], up, color=COLOURS[kind], marker=MARKERS[kind], label=kind)
        axes.set(xscale="log", ylim=(0, None), xticks=[1, 2, 4, 8], xticklabels=["1", "2", "4", "8"])
        axes.minorticks_off()
        axes.legend()
        label(axes, heading, "readers", "thousand probes per second")
    return found
