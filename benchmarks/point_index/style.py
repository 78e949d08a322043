"""How every figure looks, and where it goes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

PLOTS = Path(__file__).parent.parent / "plots"
COLOURS = {"cuckoo": "#c8553d", "postings": "#1f6f8b", "Lance BTREE": "#8a8a8a"}
GREY = "#666666"
MARKERS = {"cuckoo": "o", "postings": "s"}

_STYLE: Mapping[str, Any] = {
    "figure.dpi": 110,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    # The same result gives the same file.
    "svg.hashsalt": "needlefish",
    "svg.fonttype": "none",
}


def figure(title: str, panels: int) -> tuple[Figure, list[Axes]]:
    """A row of panels under one title; drawn without a display."""
    mpl.use("Agg")
    mpl.rcParams.update(_STYLE)
    found = Figure(figsize=(4.6 * panels, 3.6), layout="constrained")
    found.suptitle(title, fontsize=11)
    axes = found.subplots(1, panels, squeeze=False)[0]
    return found, list(axes)


def save(found: Figure, name: str) -> list[Path]:
    """As PNG and as SVG."""
    PLOTS.mkdir(exist_ok=True)
    paths = [PLOTS / f"{name}.png", PLOTS / f"{name}.svg"]
    found.savefig(paths[0], metadata={"Software": None})
    found.savefig(paths[1], metadata={"Date": None})
    return paths


def label(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title, loc="left")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
