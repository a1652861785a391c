"""Materials and tools: what is cut, and with what."""

import math
import re
from dataclasses import dataclass

from crossfeed.errors import MachineError


@dataclass(frozen=True, slots=True)
class Material:
    """Kienzle constants of a material."""

    name: str
    specific_force: float  # N/mm^2, k_c1.1
    exponent: float  # m_c


MATERIALS = {
    "aluminium": Material("aluminium", 780.0, 0.23),
    "steel": Material("steel", 1780.0, 0.25),
    "pla": Material("pla", 115.0, 0.18),
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
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_FLUTE = re.compile(r"(?<![A-Z])AP_?(\d+(?:[.,]\d+)?)", re.IGNORECASE)
# Words in a tool name, in the German of the shop or in English, and the teeth such a tool has.
_TEETH = (
    (re.compile(r"\bPLAN|FACE|MESSERKOPF", re.IGNORECASE), 6),
    (re.compile(r"BOHR|DRILL", re.IGNORECASE), 2),
    (re.compile(r"\bENT|FASE|CHAMFER|DEBURR|SENK", re.IGNORECASE), 4),
    (re.compile(r"BALL|KUGEL", re.IGNORECASE), 2),
)
_ASSUMED_DIAMETER = 10.0
_TOOL_NOTE = re.compile(r"\bT(\d+)\s*M0*6\s*\(([^)]*)\)", re.IGNORECASE)
_MATERIAL_NOTE = re.compile(r"MATERIAL:\s*(\w+)", re.IGNORECASE)


def tool_named(name: str, note: str = "") -> Tool:
    """Read diameter, flute length and kind from a name such as SCHAFT_D8_N_AP20, or from a note such as END MILL 8."""
    text = note or name
    found, flute = _DIAMETER.search(text) or (_NUMBER.search(note) if note else None), _FLUTE.search(text)
    diameter = _number(found) or _ASSUMED_DIAMETER
    teeth = next((count for pattern, count in _TEETH if pattern.search(text)), 3)
    deepest = min(_number(flute) or math.inf, 1.5 * diameter)
    return Tool(name, diameter, teeth, deepest, assumed=found is None)


def _number(found: re.Match[str] | None) -> float:
    return float((found[1] if found.re.groups else found[0]).replace(",", ".")) if found else 0.0


def tool_notes(text: str) -> dict[str, str]:
    """What an NC text says about its numbered tools: T1 M6 (END MILL 12) gives {'T1': 'END MILL 12'}."""
    return {f"T{int(number)}": note for number, note in _TOOL_NOTE.findall(text)}


def material_for(text: str, chosen: str | None = None) -> Material:
    """The chosen material, else the one that an NC text names, else aluminium."""
    return material_named(chosen or material_noted(text) or "aluminium")


def material_noted(text: str) -> str | None:
    """The material an NC text names in a remark such as `; Material: steel`, if it is one we know."""
    found = _MATERIAL_NOTE.search(text)
    return found[1].lower() if found and found[1].lower() in MATERIALS else None
