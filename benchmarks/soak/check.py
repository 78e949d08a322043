"""What a find may show, from the notes of the writers: some order of their changes must explain every answer.

Of one key, a change that was acknowledged before another began comes before it; the greatest `seq` wins among upserts, whatever their
order; a delete removes all that came before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any


@dataclass(slots=True, kw_only=True)
class Op:
    """One change of one key. Not acknowledged means that it may still happen."""

    kind: str
    seq: int
    begin: float
    ack: float = inf


def ops_by_key(writers: Iterable[Iterable[dict[str, Any]]]) -> dict[int, list[Op]]:
    """From the notes of all writers."""
    found: dict[int, list[Op]] = {}
    for notes in writers:
        begun: dict[int, list[Op]] = {}
        for note in notes:
            if "op" in note:
                begun[note["op"]] = [Op(kind=note["kind"], seq=note["seq"], begin=note["begin"]) for _ in note["keys"]]
                for key, op in zip(note["keys"], begun[note["op"]], strict=True):
                    found.setdefault(key, []).append(op)
            for op in begun.get(note.get("ack", 0), ()):
                op.ack = note["at"]
    return found


def problems(ops: dict[int, list[Op]], look: dict[str, Any]) -> Iterator[str]:
    """What is wrong with one answer; `begin` and `known` are the moments between which its version was the newest."""
    begin, known = look["begin"], look["known"]
    where = f"version {look['version']}, read at {begin:.3f}"
    seen: dict[int, int] = {}
    for key, seq in look["seen"]:
        if key in seen:
            yield f"key {key} is there twice, with {seen[key]} and {seq}; {where}"
        seen[key] = seq
    yield from (f"row {row} is mixed up; {where}" for row in look["wrong"])
    yield from (f"key {key} was not asked for; {where}" for key in sorted(seen.keys() - set(look["asked"])))
    for key in look["asked"]:
        of_key = ops.get(key, [])
        reason = _shown(of_key, seen[key], begin, known) if key in seen else _missing(of_key, begin, known)
        if reason:
            yield f"key {key} {reason}; {where}"


def _shown(ops: Sequence[Op], seq: int, begin: float, known: float) -> str | None:
    """Why a row cannot be what a key shows."""
    op = next((op for op in ops if op.kind == "upsert" and op.seq == seq), None)
    if op is None or op.begin > known:
        return f"shows {seq}, which nobody has written"
    for other in ops:
        if other is op or other.ack >= begin:
            continue
        if other.kind == "delete" and other.begin > op.ack:
            return f"shows {seq}, which was deleted at {other.ack:.3f}"
        if other.kind == "upsert" and other.seq > seq and not _may_be_deleted(ops, other, known):
            return f"shows {seq}, although {other.seq} was acknowledged at {other.ack:.3f}"
    return None


def _missing(ops: Sequence[Op], begin: float, known: float) -> str | None:
    """Why a key cannot be missing."""
    for op in ops:
        if op.kind == "upsert" and op.ack < begin and not _may_be_deleted(ops, op, known):
            return f"is missing, although {op.seq} was acknowledged at {op.ack:.3f}"
    return None


def _may_be_deleted(ops: Sequence[Op], op: Op, known: float) -> bool:
    """Whether a delete may have come after it, before the version was read."""
    return any(other.kind == "delete" and other.begin <= known and other.ack > op.begin for other in ops)
