"""Materials and tools: what is cut, and with what."""

import re
from dataclasses import dataclass

from crossfeed.errors import MachineError


@dataclass(frozen=True, slots=True)
class Material:
    """Kienzle constants of a material, and how its NC program would differ from one for aluminium."""

    name: str
    specific_force: float  # N/mm^2, k_c1.1
    exponent: float  # m_c
    speed_factor: float  # of the programmed spindle speed
    feed_factor: float  # of the programmed feed


MATERIALS = {
    "aluminium": Material("aluminium", 780.0, 0.23, 1.0, 1.0),
    "steel": Material("steel", 1780.0, 0.25, 0.42, 0.36),
    "pla": Material("pla", 115.0, 0.18, 0.9, 1.0),
}


def material_named(name: str) -> Material:
    """A material by its name."""
    if name.lower() not in MATERIALS:
        raise MachineError(f"There is no material '{name}'.", expected=f"one of {', '.join(MATERIALS)}")
    return MATERIALS[name.lower()]


@dataclass(frozen=True, slots=True)
class Tool:
    """A cutter as the cutting formula sees it."""

    name: str
    diameter: float  # mm
    teeth: int
    deepest: float  # mm, the longest cut its flutes can make
    assumed: bool  # the name did not tell, so the diameter is a guess that is reported


_DIAMETER = re.compile(r"(?<![A-Z])D_?(\d+(?:[.,]\d+)?)", re.IGNORECASE)
_FLUTE = re.compile(r"(?<![A-Z])AP_?(\d+(?:[.,]\d+)?)", re.IGNORECASE)
# The beginning of a tool name, in the German of the shop or in English, and its teeth.
_TEETH = (
    (re.compile(r"PLAN|FACE|MESSERKOPF", re.IGNORECASE), 6),
    (re.compile(r"BOHR|DRILL", re.IGNORECASE), 2),
    (re.compile(r"ENT|FASE|CHAMFER|DEBURR|SENK", re.IGNORECASE), 4),
)
_ASSUMED_DIAMETER = 10.0


def tool_named(name: str) -> Tool:
    """Read diameter, flute length and kind from a name such as SCHAFT_D8_N_AP20."""
    found, flute = _DIAMETER.search(name), _FLUTE.search(name)
    diameter = float(found[1].replace(",", ".")) if found else _ASSUMED_DIAMETER
    diameter = diameter if diameter > 0 else _ASSUMED_DIAMETER
    teeth = next((count for pattern, count in _TEETH if pattern.match(name)), 3)
    deepest = float(flute[1].replace(",", ".")) if flute else 1.5 * diameter
    return Tool(name, diameter, teeth, min(deepest, 1.5 * diameter), assumed=found is None)
