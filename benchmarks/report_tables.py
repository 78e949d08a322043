"""The tables of the report, as HTML."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from benchmarks.budget import Budget
from benchmarks.charts import shown
from benchmarks.peers import OURS

Result = Mapping[str, Any]

_CSS = """
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; color: #1f2933 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
div.wide { overflow-x: auto }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #e4e7eb; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
td.ours { font-weight: 600; color: #d1495b } td.best { background: #f3f7ee } .quiet, td.none { color: #7b8794 }
td.wrong { background: #fbe3e6 } figure { margin: 1rem 0 } svg { max-width: 100%; height: auto } h2 { margin-top: 3rem }
"""


def page(parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    intro = (
        "<p>Medians of counted rounds; whiskers are the 10th and 90th percentile. The peers take turns on the same rows in the same run, each "
        "in a process of its own. Losses are shown like wins, and what a peer cannot do is named below each table.</p>"
    )
    title = "Needlefish beside the systems one would pick instead"
    return f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{_CSS}</style><h1>{title}</h1>{intro}\n{body}</html>\n"


def machine_line(machine: Result) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    changed = " with changes" if machine["changed_since_commit"] else ""
    words = f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, load {machine['load_before']} before, commit {machine['commit']}{changed}; {packages}"
    return escape(words)


def comparison_table(result: Result) -> str:
    """Milliseconds; under the pointer the spread, memory, bytes and requests."""
    peers = list(result["peers"])
    rows = [["load", *(_cell(result["peers"][name]["load"], name, None) for name in peers)]]
    for question in result["questions"]:
        known = [found["median_ms"] for found in question["peers"].values() if found["status"] == "ok"]
        best = min(known, default=None)
        rows.append([escape(question["title"]), *(_cell(question["peers"][name], name, best) for name in peers)])
    return _table(["ms", *peers], rows)


def _cell(found: Result, name: str, best: float | None) -> str:
    if found["status"] != "ok":
        return f'<td class=none title="{escape(found["reason"], quote=True)}">{"failed" if found["status"] == "failed" else "–"}</td>'
    kinds = [kind for kind, on in (("ours", name == OURS), ("best", found["median_ms"] == best), ("wrong", found["agrees"] is False)) if on]
    return f'<td class="{" ".join(kinds)}" title="{escape(_details(found), quote=True)}">{shown(found["median_ms"])}</td>'


def _details(found: Result) -> str:
    lines = [f"{found['rounds']} rounds, p10 {shown(found['p10_ms'])} to p90 {shown(found['p90_ms'])} ms"]
    if found["agrees"] is False:
        lines.append("WRONG ROWS")
    for name, unit in (("rows", "rows"), ("requests", "requests")):
        if found[name] is not None:
            lines.append(f"{found[name]:,.0f} {unit}")
    for name in ("read_bytes", "written_bytes", "kept_bytes", "peak_bytes"):
        if found[name] is not None:
            lines.append(f"{name.removesuffix('_bytes')} {found[name] / 1e6:,.2f} MB")
    return "\n".join(lines)


def reasons_list(result: Result) -> str:
    """Why a place in the table is empty, said once for all the peers and questions that it holds for."""
    said: dict[str, list[str]] = {}
    lines = {"load": {name: peer["load"] for name, peer in result["peers"].items()}}
    lines |= {question["name"]: question["peers"] for question in result["questions"]}
    for question, peers in lines.items():
        for name, found in peers.items():
            if found["status"] != "ok":
                said.setdefault(f"{found['status']}: {found['reason']}", []).append(f"{name} {question}")
    items = "".join(f"<li>{escape(reason)} <span class=quiet>({escape(', '.join(where))})</span>" for reason, where in said.items())
    return f"<details><summary>What is missing, and why</summary><ul>{items}</ul></details>" if items else ""


def setups_list(result: Result) -> str:
    items = "".join(f"<li><b>{escape(name)}</b>: {escape(peer['setup'])}" for name, peer in result["peers"].items())
    return f"<details><summary>How each peer is set up</summary><ul>{items}</ul></details>"


def budgets_table(found: Iterable[Budget]) -> str:
    rows = [
        [
            escape(budget.what),
            *(f"<td>{escape(text)}</td>" for text in (budget.budget, budget.measured)),
            "<td>yes</td>" if budget.met else "<td class=wrong>no</td>",
        ]
        for budget in found
    ]
    return _table(["budget", "promised", "measured", "met"], rows)


def upsert_table(result: Result) -> str:
    rows = []
    for name, peer in result["peers"].items():
        for number, run in enumerate(peer.get("runs", ()), 1):
            ratio = run["written_bytes"] / run["batch_bytes"]
            numbers = (run["seconds"], run["written_bytes"] / 1e6, ratio, run["peak_bytes"] / 1e6)
            rows.append(
                [escape(f"{name}, run {number}"), *(_plain(shown(value), name) for value in numbers), _plain(_rightness(peer), name)]
            )
        if peer["status"] != "ok":
            rows.append([escape(name), f"<td class=none colspan=5>{escape(peer['status'])}: {escape(peer['reason'])}</td>"])
    return _table(["peer", "seconds", "MB written", "times the batch", "peak MB", "rows afterwards"], rows)


def costs_table(result: Result) -> str:
    rows = []
    for name, peer in result["peers"].items():
        for question, cost in peer["questions"].items():
            if cost["status"] == "ok":
                numbers = (cost["median_ms"], cost["p90_ms"], cost["requests"], cost["bytes"] / 1000, cost["dollars_per_million"])
                rows.append([escape(f"{name}, {question}"), *(_plain(shown(value), name) for value in numbers)])
            else:
                rows.append(
                    [escape(f"{name}, {question}"), f"<td class=none colspan=5>{escape(cost['status'])}: {escape(cost['reason'])}</td>"]
                )
    return _table(["peer, question", "median ms", "p90 ms", "requests", "KB", "$ a million"], rows)


def _rightness(peer: Result) -> str:
    return {True: "right", False: "WRONG", None: ""}[peer.get("right")]


def _plain(text: str, name: str) -> str:
    return f"<td{' class=ours' if name == OURS else ''}>{escape(text)}</td>"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr><td>{row[0]}</td>{''.join(row[1:])}</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
