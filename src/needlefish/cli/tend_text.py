"""What a loop tells, as lines for people and objects for programs."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from needlefish.cli.human import bytes_text, counted, seconds_text, time_text
from needlefish.cli.service_text import executed_words
from needlefish.services.execute import ServiceResult
from needlefish.services.tend import Event

# Longer reasons are cut: a line is read at a glance, and --json has the whole.
_REASON_CHARACTERS = 240


def event_line(event: Event) -> str:
    """`2026-11-16 09:12:01.123  /data/orders  compaction  6 files, 9.3 KiB became 3, 8.1 KiB, in 346 ms (version 10)`."""
    return "  ".join((time_text(event.timestamp_ms), event.table, event.action, _words(event)))


def event_facts(event: Event) -> dict[str, object]:
    """All of it; figures are there by the names that the API has."""
    return {found.name: getattr(event, found.name) for found in fields(Event)}


def _words(event: Event) -> str:
    if event.outcome == "done":
        return _DONE[event.action](event.facts)
    again = "" if event.wait_seconds is None else f"; the next look is in {seconds_text(event.wait_seconds)}"
    reason = " ".join((event.reason or "").split())
    return _OUTCOMES[event.outcome] + (reason if len(reason) <= _REASON_CHARACTERS else reason[:_REASON_CHARACTERS] + "…") + again


def _rewritten(facts: Mapping[str, Any]) -> str:
    result = ServiceResult(**facts)
    if result.repeated:
        return f"another worker has done it, as version {result.version}"
    return f"{executed_words(result)}, in {seconds_text(result.seconds)} (version {result.version})"


def _rolled_back(facts: Mapping[str, Any]) -> str:
    return f"undone, since nobody works on them any more: {', '.join(facts['rolled_back'])} (version {facts['version']})"


def _merged(facts: Mapping[str, Any]) -> str:
    return (
        f"{counted(facts['runs_before'], 'run')} became {facts['runs']:,}, in {seconds_text(facts['seconds'])} (version {facts['version']})"
    )


def _cleaned(facts: Mapping[str, Any]) -> str:
    gone = f"{counted(facts['objects'], 'object')}, {bytes_text(facts['bytes'])} removed"
    undone = f", undone: {', '.join(facts['rolled_back'])}" if facts["rolled_back"] else ""
    return f"{gone}{undone}; versions from {facts['oldest']} on stay, in {seconds_text(facts['seconds'])} (version {facts['version']})"


_DONE: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "rollback": _rolled_back,
    "compaction": _rewritten,
    "clustering": _rewritten,
    "merge": _merged,
    "clean": _cleaned,
}
_OUTCOMES = {
    "first": "somebody else was first: ",
    "undone": "undone: ",
    "away": "not to be reached: ",
    "failed": "failed: ",
}
