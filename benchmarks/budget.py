"""One promise and what was measured of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    what: str
    budget: str
    measured: str
    met: bool


def at_most(what: str, measured: float, most: float, unit: str) -> Budget:
    return Budget(what=what, budget=f"<= {most:g} {unit}", measured=f"{measured:.3g} {unit}", met=measured <= most)


def at_least(what: str, measured: float, least: float, unit: str) -> Budget:
    return Budget(what=what, budget=f">= {least:g} {unit}", measured=f"{_digits(measured)} {unit}", met=measured >= least)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
