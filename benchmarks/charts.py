"""Plots of result files, each as SVG for documents and PNG for the rest.

Ours has the one strong colour, the others are grey: the eye goes to the line it came for. What failed or is unsupported
keeps its place, with a word instead of a bar.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.peers import OURS

mpl.use("Agg")

_STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # The same data gives the same bytes, so that a changed chart is a changed result.
    "svg.hashsalt": "needlefish",
    # Text as text: readable to search and to screen readers.
    "svg.fonttype": "none",
}
_STRONG, _QUIET, _INK = "#d1495b", "#9aa5b1", "#1f2933"
_LINES = ("#30638e", "#003d5b", "#edae49", "#66a182", "#8d6a9f", "#00798c", "#c08552", "#5c677d", "#7a9e1f")
Outcomes = Mapping[str, Mapping[str, Any]]


def bars(panels: Sequence[tuple[str, Outcomes]], measure: str, unit: str, *, factor: float = 1.0, caption: str = "") -> Figure:
    """One panel for each question, fastest on top, on a logarithmic scale: the peers are orders of magnitude apart."""
    with mpl.rc_context(_STYLE):
        most = max(len(peers) for _, peers in panels)
        figure = Figure(figsize=(4.6 * len(panels), 0.9 + 0.3 * most), layout="constrained")
        for axes, (title, peers) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _panel(axes, title, peers, measure, unit, factor)
        figure.supxlabel(caption, fontsize=8, color=_QUIET, x=0.01, ha="left")
        return figure


def _panel(axes: Axes, title: str, peers: Outcomes, measure: str, unit: str, factor: float) -> None:
    def value(name: str) -> float | None:
        found = peers[name].get(measure)
        return None if peers[name]["status"] != "ok" or found is None else max(float(found) * factor, 1e-3)

    answered = sorted((name for name in peers if value(name) is not None), key=lambda name: value(name) or 0.0)
    order = [*answered, *(name for name in peers if value(name) is None)]
    values = [value(name) for name in answered]
    axes.barh(range(len(answered)), values, color=[_STRONG if name == OURS else _QUIET for name in answered], height=0.65)
    if measure == "median_ms" and answered:
        _whiskers(axes, [peers[name] for name in answered], values, factor)
    axes.set_yticks(range(len(order)), order)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == OURS else "normal")
    # Downwards, with room for the words of those without a bar.
    axes.set_ylim(len(order) - 0.4, -0.6)
    if answered:
        axes.set_xscale("log")
        _plain_numbers(axes.xaxis)
        low, high = min(values), max(values)
        axes.set_xlim(low / 3, high * 12)
    for place, name in enumerate(order):
        known = value(name)
        text = f"  {shown(known)} {unit}" if known is not None else f"  {_word(peers[name])}"
        start = max(known, float(peers[name].get("p90_ms") or 0) * factor if measure == "median_ms" else 0) if known else axes.get_xlim()[0]
        axes.text(start, place, text, va="center", color=_INK if known is not None else _QUIET, style="normal" if known else "italic")
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(f"{unit}, logarithmic")


def _whiskers(axes: Axes, peers: Sequence[Mapping[str, Any]], values: Sequence[float | None], factor: float) -> None:
    low = [
        max(0.0, (value or 0.0) - float(peer.get("p10_ms") or 0) * factor) if peer.get("p10_ms") else 0.0
        for peer, value in zip(peers, values)
    ]
    high = [max(0.0, float(peer.get("p90_ms") or 0) * factor - (value or 0.0)) for peer, value in zip(peers, values)]
    axes.errorbar(values, range(len(values)), xerr=[low, high], fmt="none", ecolor=_INK, elinewidth=0.8, capsize=2)


def _word(found: Mapping[str, Any]) -> str:
    if found["status"] == "ok":
        return "not counted"
    return "failed" if found["status"] == "failed" else ("not yet" if str(found["reason"]).startswith("not yet") else "has no such verb")


def lines(panels: Sequence[tuple[str, Mapping[str, Sequence[tuple[float, float]]]]], across: str, unit: str) -> Figure:
    """Growth: by peer the points (size, value), both logarithmic, named at the end of the line."""
    with mpl.rc_context(_STYLE):
        columns = min(3, len(panels))
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(4.8 * columns, 3.4 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).flatten()
        names = sorted({name for _, peers in panels for name in peers} - {OURS})
        colours = {name: _LINES[place % len(_LINES)] for place, name in enumerate(names)} | {OURS: _STRONG}
        for axes, (title, peers) in zip(grid, panels, strict=False):
            _growth(axes, title, peers, colours)
            axes.set_xlabel(across)
            axes.set_ylabel(unit)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        return figure


def _growth(axes: Axes, title: str, peers: Mapping[str, Sequence[tuple[float, float]]], colours: Mapping[str, str]) -> None:
    for name, points in peers.items():
        across, up = zip(*points, strict=True)
        axes.plot(
            across,
            up,
            marker="o",
            markersize=3,
            color=colours[name],
            linewidth=2.2 if name == OURS else 1.2,
            zorder=3 if name == OURS else 2,
        )
        axes.annotate(name, (across[-1], up[-1]), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7, color=colours[name])
    axes.set_xscale("log")
    axes.set_yscale("log")
    _plain_numbers(axes.xaxis)
    _plain_numbers(axes.yaxis)
    axes.margins(x=0.25)
    axes.set_title(title, loc="left", fontsize=10)


def _plain_numbers(axis: Axis) -> None:
    """1,000 rather than a power of ten."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def shown(value: float) -> str:
    """Three digits, whatever the size."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def save(figure: Figure, folder: Path, name: str) -> Path:
    """NAME.svg and NAME.png; the path of the SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):
        figure.savefig(folder / f"{name}.png", dpi=160)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return folder / f"{name}.svg"
