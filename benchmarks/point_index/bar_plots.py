"""The figures that compare a few numbers: build, S3, Lance."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.point_index.style import COLOURS, GREY, MARKERS, figure, label

Row = Mapping[str, Any]
_KINDS = ("cuckoo", "postings")
_WIDTH = 0.38


def build_figure(result: Mapping[str, list[Row]]) -> Figure:
    found, (speed, bits) = figure("Build from hashes on two cores", 2)
    shapes = sorted({row["values"] for row in result["build"]})
    for at, kind in enumerate(_KINDS):
        built = {row["values"]: row["keys_per_s"] / 1e6 for row in result["build"] if row["kind"] == kind}
        merged = next(row["keys_per_s"] / 1e6 for row in result["merge"] if row["kind"] == kind)
        _bars(speed, at, [built[values] for values in shapes] + [merged], kind)
    groups = [f"{values:,}\nvalues each" for values in shapes] + ["merge of\n8 runs"]
    speed.set_xticks(range(len(groups)), groups)
    for kind, least in (("cuckoo", 15), ("postings", 20)):
        speed.axhline(least, color=COLOURS[kind], linestyle="--", linewidth=1, label=f"budget, build of {kind}")
    label(speed, "Speed", "", "million keys per second")
    _bits(bits, result["bits"])
    for axes in (speed, bits):
        axes.legend()
    return found


def _bits(axes: Axes, rows: list[Row]) -> None:
    for kind in _KINDS:
        line = [row for row in rows if row["kind"] == kind]
        across, up = [row["predicted"] for row in line], [row["bits_per_key"] for row in line]
        axes.plot(across, up, color=COLOURS[kind], marker=MARKERS[kind], linestyle="none", label=kind)
    low, high = min(row["predicted"] for row in rows) - 1, max(row["predicted"] for row in rows) + 1
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, label="log2(granules / false reads) + 2")
    axes.fill_between([low, high], [low, high], [low + 0.6, high + 0.6], color="#dddddd", label="0.6 bits more")
    label(axes, "Size, at the same false reads", "predicted for postings, bits per key", "measured bits per key")


def s3_figure(rows: list[Row]) -> Figure:
    found, (requests, sizes) = figure("A cold probe on S3: one run, a reader that knows nothing yet", 2)
    counts = sorted({row["partitions"] for row in rows})
    for at, kind in enumerate(_KINDS):
        of_kind = {row["partitions"]: row for row in rows if row["kind"] == kind}
        _bars(requests, at, [of_kind[count]["most_requests"] for count in counts], kind)
        _bars(sizes, at, [of_kind[count]["most_bytes"] / 1024 for count in counts], kind)
    for axes, most, text in ((requests, 2, "requests, most"), (sizes, 16, "KiB, most")):
        axes.axhline(most, color=COLOURS["postings"], linestyle="--", linewidth=1, label="budget of postings")
        axes.set_xticks(range(len(counts)), [f"{count:,}" for count in counts])
        label(axes, text.partition(",")[0].capitalize() if text[0] != "K" else "Bytes", "partitions", text)
        axes.legend()
    sizes.set(yscale="log")
    return found


def lance_figure(result: Row) -> Figure:
    found, (speed, sizes) = figure(f"Point index of {result['rows']:,} random ids of 32 characters, beside Lance's BTREE", 2)
    names = [*_KINDS, "Lance BTREE"]
    ours = {row["kind"]: row for row in result["ours"]}
    colours = [COLOURS[name] for name in names]
    columns = [ours[kind]["from_column_rows_per_s"] / 1e6 for kind in _KINDS] + [result["lance"]["rows_per_s"] / 1e6]
    speed.bar(range(3), columns, _WIDTH, color=colours, label="from the column")
    hashes = [ours[kind]["from_hashes_rows_per_s"] / 1e6 for kind in _KINDS]
    speed.bar([_WIDTH, 1 + _WIDTH], hashes, _WIDTH, color=colours[:2], alpha=0.5, label="from hashes (paler)")
    bits = [ours[kind]["bytes"] * 8 / result["rows"] for kind in _KINDS] + [result["lance"]["bytes"] * 8 / result["rows"]]
    shown = sizes.bar(range(3), bits, 2 * _WIDTH, color=colours)
    sizes.bar_label(shown, fmt="%.1f")
    for axes in (speed, sizes):
        axes.set_xticks(range(3), names)
    speed.legend()
    label(speed, "Speed of the build", "", "million rows per second")
    label(sizes, "Size", "", "bits per row")
    return found


def _bars(axes: Axes, at: int, heights: Sequence[float], kind: str) -> None:
    places = [number + (at - 0.5) * _WIDTH for number in range(len(heights))]
    shown = axes.bar(places, heights, _WIDTH, color=COLOURS[kind], label=kind)
    axes.bar_label(shown, fmt="%.3g", fontsize=7)
