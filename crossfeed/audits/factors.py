"""The factors by which a wrong unit puts values off, derived from the units people use for a quantity."""

import math
from typing import NamedTuple

from crossfeed.schema import conversion, convertible

# Units that turn up in controller logs for each quantity; the first is the usual one.
COMMON_UNITS: dict[str, tuple[str, ...]] = {
    "power": ("kW", "W"),
    "feed": ("mm/min", "mm/s", "m/min", "in/min", "m/s"),
    "rotational speed": ("rpm", "deg/s", "turn/s", "rad/s"),
    "torque": ("N m", "mN m", "N cm"),
    "current": ("A", "mA"),
    "voltage": ("V", "mV", "kV"),
    "force": ("N", "kN"),
    "position": ("mm", "m", "in", "um"),
    "energy": ("kWh", "Wh"),
    "pressure": ("bar", "Pa", "kPa", "MPa"),
    "acceleration": ("mm/s^2", "m/s^2"),
    "vibration": ("mm/s", "m/s"),
}
# Shares are written as 0..1 or as 0..100.
_SHARES = {"modulation depth", "load", "override", "ratio"}

# How far a signal reaches on machine tools that exist, in the usual unit of its quantity.
PLAUSIBLE_REACH: dict[str, tuple[float, float]] = {
    "power": (1e-3, 300.0),
    "feed": (100.0, 150_000.0),
    "rotational speed": (30.0, 70_000.0),
    "torque": (1e-3, 5_000.0),
    "current": (1e-3, 2_000.0),
    "temperature": (1.0, 200.0),
    "modulation depth": (2.0, 250.0),
}


class Factor(NamedTuple):
    """Values written in `unit` are `inflation` times as large as in the declared unit."""

    unit: str
    inflation: float

    @property
    def size(self) -> float:
        """The factor as a number above 1, as people name it."""
        return max(self.inflation, 1.0 / self.inflation)

    def describe(self) -> str:
        """Such as 'factor 60 (mm/s)'."""
        return f"factor {self.size:.4g} ({self.unit})"


def factors(quantity: str, declared: str) -> list[Factor]:
    """What values look like when they are in another common unit than the declared one."""
    if quantity in _SHARES:
        return [Factor("a share of 1", 0.01), Factor("percent", 100.0)]
    found = []
    for unit in COMMON_UNITS.get(quantity, ()):
        if not convertible(unit, declared):
            continue
        inflation = 1.0 / conversion(unit, declared).scale
        if not math.isclose(inflation, 1.0, rel_tol=1e-3):
            found.append(Factor(unit, inflation))
    return found


def nearest(ratio: float, candidates: list[Factor]) -> tuple[Factor, float] | None:
    """The factor that explains a ratio best, and what is left unexplained (at least 1)."""
    if not candidates or not ratio > 0:
        return None
    best = min(candidates, key=lambda factor: abs(math.log(ratio / factor.inflation)))
    return best, math.exp(abs(math.log(ratio / best.inflation)))
