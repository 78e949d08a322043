"""Pictures of a soak: commits rise for as long as it lasts, while what a reader has to look at stays where it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.charts import save

PLOTS = Path(__file__).parents[1] / "plots"
_STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
_STRONG, _QUIET, _OTHER = "#d1495b", "#9aa5b1", "#30638e"
# By panel its lines: what a sample has, how it is called, its colour.
_PANELS: dict[str, Sequence[tuple[str, str, str]]] = {
    "versions": (("version", "so far", _OTHER), ("readable", "readable", _STRONG)),
    "live runs": (("live_runs", "all", _OTHER), ("most_runs_of_a_kind", "most of one kind", _STRONG)),
    "files": (("data_files", "on the store", _QUIET), ("live_files", "live", _STRONG)),
    "megabytes on the store": (("megabytes", "all", _QUIET), ("megabytes_but_log", "but the log", _STRONG)),
}


def plot(name: str, result: Mapping[str, Any]) -> Path | None:
    """NAME.svg and NAME.png from the samples of a result."""
    samples = [_more(sample) for sample in result["samples"]]
    if not samples:
        return None
    with rc_context(_STYLE):
        figure = Figure(figsize=(3.4 * len(_PANELS), 2.9), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, len(_PANELS)), _PANELS.items(), strict=True):
            _panel(axes, title, lines, samples)
        figure.supxlabel(_caption(result), fontsize=8, color=_QUIET, x=0.01, ha="left")
        return save(figure, PLOTS, name)


def _more(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **sample,
        "readable": sample["version"] - sample["oldest"] + 1,
        "megabytes": sample["bytes"] / 1e6,
        "megabytes_but_log": sample["bytes_but_log"] / 1e6,
    }


def _panel(axes: Axes, title: str, lines: Sequence[tuple[str, str, str]], samples: Sequence[Mapping[str, Any]]) -> None:
    seconds = [sample["second"] for sample in samples]
    for name, label, colour in lines:
        values = [sample[name] for sample in samples]
        axes.plot(seconds, values, color=colour, linewidth=1.6)
        axes.annotate(label, (seconds[-1], values[-1]), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7, color=colour)
    axes.set_ylim(bottom=0)
    # With room for the words at the end of the lines.
    axes.set_xlim(0, 1.35 * seconds[-1])
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("seconds")


def _caption(result: Mapping[str, Any]) -> str:
    writers, finders = result["writers"], result["finders"]
    changes = writers.get("upsert", 0) + writers.get("delete", 0)
    looks = finders.get("finds", 0) + finders.get("scans", 0)
    where = "a local disk" if result["on"] == "local" else "S3 with faults"
    return f"3 writers, 2 service workers, 2 finders on {where}: {changes:,} changes, {looks:,} reads checked, {result['wrong']} wrong"
