"""The cut: torque and feed force from chip load, depth, width and material (Kienzle's formula).

    T = k_c h_m^(-m_c) a_p a_e f_z z / 2 pi      with the mean chip thickness h_m = f_z (2 a_e / D) / phi_s
    phi_s = arccos(1 - 2 a_e / D)                the arc of engagement

which is specific cutting force times removal rate over spindle speed. A drill is a full cut whose depth times width is
the area of its hole. Without feed there is no chip and no force.
What the tool meets comes from a height map of the stock."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossfeed.errors import MachineError
from crossfeed.sim.physics.drives import AxisMotion
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.parameters import Floats

# Mean forces on the tool as parts of the tangential force 2 T / D.
AGAINST_FEED = 0.45
ACROSS_FEED = 0.25
ALONG_TOOL = 0.15
_STANDING = 1e-6  # mm/s
# The stock as a height map.
_CELL = 0.5  # mm, side of a height cell
_STRIDE, _STRIDES = 0.5, 12.0  # mm along the path between two looks at the stock, or a part of the tool's diameter
_LOOKS = 5  # neighbouring looks that are averaged: cells are square, chips are not
_MOST_CELLS = 4_000_000  # larger parts get coarser cells
_FACE_MILL = 25.0  # mm of diameter from which a tool is one
_AIR = 1e-3  # mm^2, a chip cross-section that counts as none


@dataclass(frozen=True, slots=True)
class Cut:
    """Cutting torque at every step as gain * (chip load in mm) ** exponent; chip load = feed_per_turn / speed."""

    gain: Floats  # N m
    exponent: Floats
    feed_per_turn: Floats  # mm rad/s


def torque(
    specific_force: Floats, exponent: Floats, depth: Floats, width: Floats, diameter: Floats, teeth: Floats
) -> Floats:
    """Cutting torque in N m at a chip load of 1 mm, the `gain` of a Cut."""
    share = np.clip(width / diameter, 1e-9, 1.0)
    thickness_ratio = 2 * share / np.arccos(1 - 2 * share)
    return np.asarray(specific_force * thickness_ratio**-exponent * depth * width * teeth / (2000 * np.pi))


def cut(inputs: DriveInputs, motions: Sequence[AxisMotion], liveliness: Floats) -> Cut:
    """The cut that the true slide velocities make of the engagement."""
    squared = sum((motion.velocity * motion.velocity for motion in motions), start=np.zeros(len(inputs)))
    velocity = np.sqrt(squared)
    engaged = np.flatnonzero((inputs.depth > 0) & (inputs.width > 0) & (velocity > _STANDING))
    gain = np.zeros(len(inputs))
    if len(engaged):
        gain[engaged] = liveliness[engaged] * torque(
            inputs.specific_force[engaged],
            inputs.exponent[engaged],
            inputs.depth[engaged],
            inputs.width[engaged],
            inputs.diameter[engaged],
            inputs.teeth[engaged],
        )
    return Cut(gain, 1 - inputs.exponent, 2 * np.pi * velocity / inputs.teeth)


def feed_forces(
    inputs: DriveInputs, motions: Sequence[AxisMotion], tooth_torque: Floats
) -> tuple[Floats, Floats, Floats]:
    """Forces in N that the x, y and z drives must overcome: against the feed, across it, and along the tool."""
    zero = np.zeros(len(inputs))
    cutting = np.flatnonzero(tooth_torque > 0)
    if not len(cutting):
        return zero, zero, zero
    vx, vy, vz = (motion.velocity[cutting] for motion in motions)
    tangential = 2000 * tooth_torque[cutting] / inputs.diameter[cutting]
    per_speed = tangential / np.maximum(np.sqrt(vx * vx + vy * vy + vz * vz), _STANDING)
    forces = (zero, zero.copy(), zero.copy())
    forces[0][cutting] = per_speed * (AGAINST_FEED * vx - ACROSS_FEED * vy)
    forces[1][cutting] = per_speed * (AGAINST_FEED * vy + ACROSS_FEED * vx)
    forces[2][cutting] = per_speed * AGAINST_FEED * vz - ALONG_TOOL * tangential
    return forces


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
    diameter_text, flute = _DIAMETER.search(text) or (_NUMBER.search(note) if note else None), _FLUTE.search(text)
    diameter = _number(diameter_text) or _ASSUMED_DIAMETER
    teeth = next((count for pattern, count in _TEETH if pattern.search(text)), 3)
    deepest = min(_number(flute) or math.inf, 1.5 * diameter)
    return Tool(name, diameter, teeth, deepest, assumed=diameter_text is None)


def _number(match: re.Match[str] | None) -> float:
    return float((match[1] if match.re.groups else match[0]).replace(",", ".")) if match else 0.0


def tool_notes(text: str) -> dict[str, str]:
    """What an NC text says about its numbered tools: T1 M6 (END MILL 12) gives {'T1': 'END MILL 12'}."""
    return {f"T{int(number)}": note for number, note in _TOOL_NOTE.findall(text)}


def material_for(text: str, chosen: str | None = None) -> Material:
    """The chosen material, else the one that an NC text names, else aluminium."""
    return material_named(chosen or material_noted(text) or "aluminium")


def material_noted(text: str) -> str | None:
    """The material an NC text names in a remark such as `; Material: steel`, if it is one we know."""
    note = _MATERIAL_NOTE.search(text)
    return note[1].lower() if note and note[1].lower() in MATERIALS else None


@dataclass(frozen=True, slots=True)
class Engagement:
    """Axial depth and radial width of cut in mm for every sample of a path; both 0 in the air."""

    depth: Floats
    width: Floats


def engage(
    position: Floats,
    cutting: NDArray[np.bool_],
    tool: NDArray[np.intp],
    tools: list[Tool],
    stock_top: float,
    coarseness: float = 1.0,
) -> Engagement:
    """Mill the path (N, 3) out of a block whose top lies at z = `stock_top`.

    The block is as long and wide as the path itself, less the radius of a face mill, which runs off the stock.
    A `coarseness` of 2 takes cells twice as wide and looks at the stock half as often: eight times quicker.
    """
    depth, width = np.zeros(len(position)), np.zeros(len(position))
    inside = cutting & (position[:, 2] < stock_top - 1e-6)
    samples = np.flatnonzero(inside)
    if not len(samples):
        return Engagement(depth, width)
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for tool_number in np.unique(tool[samples]):
        places = position[samples[tool[samples] == tool_number], :2]
        overrun = tools[int(tool_number)].diameter / 2 if tools[int(tool_number)].diameter >= _FACE_MILL else 0.0
        middle = (places.min(axis=0) + places.max(axis=0)) / 2
        low = np.minimum(low, np.minimum(places.min(axis=0) + overrun, middle))
        high = np.maximum(high, np.maximum(places.max(axis=0) - overrun, middle))
    block = _Block(low, high, stock_top, _CELL * coarseness)
    starts = np.flatnonzero(np.diff(samples, prepend=-2) > 1)  # each stretch of cutting
    for first, last in zip(starts, np.append(starts[1:], len(samples))):
        stretch = samples[first:last]
        for tool_number in np.unique(tool[stretch]):
            part = stretch[tool[stretch] == tool_number]
            depth[part], width[part] = _along(block, position[part], tools[int(tool_number)], coarseness)
    return Engagement(depth, width)


class _Block:
    """Heights of the remaining stock on a square grid."""

    def __init__(self, low: Floats, high: Floats, top: float, finest: float) -> None:
        extent = high - low
        self.corner, self.cell = low.tolist(), max(finest, float(np.sqrt(extent[0] * extent[1] / _MOST_CELLS)))
        self.heights = np.full((int(extent[0] / self.cell) + 1, int(extent[1] / self.cell) + 1), top)
        self._discs: dict[float, NDArray[np.bool_]] = {}

    def disc(self, radius: float) -> NDArray[np.bool_]:
        """The cells a tool covers around its centre."""
        if radius not in self._discs:
            reach = int(radius / self.cell)
            steps = np.arange(-reach, reach + 1) * self.cell
            self._discs[radius] = steps[:, None] ** 2 + steps[None, :] ** 2 <= radius**2
        return self._discs[radius]

    def remove(self, x: float, y: float, z: float, radius: float) -> tuple[float, int]:
        """Lower the stock under a tool tip to z; gives the volume in mm^3 and the number of cells that lost height."""
        disc = self.disc(radius)
        reach = len(disc) // 2
        i = round((x - self.corner[0]) / self.cell) - reach
        j = round((y - self.corner[1]) / self.cell) - reach
        rows, columns = self.heights.shape
        i0, i1, j0, j1 = max(i, 0), min(i + len(disc), rows), max(j, 0), min(j + len(disc), columns)
        if i0 >= i1 or j0 >= j1:
            return 0.0, 0
        under = self.heights[i0:i1, j0:j1]
        touched = under > z
        touched &= disc[i0 - i : i1 - i, j0 - j : j1 - j]
        heights = under[touched]
        if not len(heights):
            return 0.0, 0
        np.copyto(under, z, where=touched)
        return (float(np.add.reduce(heights)) - len(heights) * z) * self.cell**2, len(heights)


def _along(block: _Block, points: Floats, tool: Tool, coarseness: float) -> tuple[Floats, Floats]:
    """Depth and width at the samples of one stretch cut with one tool."""
    travelled = np.concatenate(([0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))))
    count = max(1, round(travelled[-1] / (coarseness * max(_STRIDE, tool.diameter / _STRIDES))))
    stride = max(float(travelled[-1]) / count, 1e-6)
    looks = (np.arange(count) + 1) * stride
    places = np.column_stack([np.interp(looks, travelled, points[:, axis]) for axis in range(3)])
    removed = np.array([block.remove(x, y, z, tool.diameter / 2) for x, y, z in places.tolist()])
    kernel = np.ones(min(_LOOKS, count)) / min(_LOOKS, count)
    volume = np.convolve(removed[:, 0], kernel, mode="same")
    cells = np.convolve(removed[:, 1], kernel, mode="same")
    section = volume / stride
    mean_depth = np.divide(volume, cells * block.cell**2, out=np.ones(count), where=cells > 0)
    width = np.minimum(section / mean_depth, tool.diameter)
    # A plunge lowers the whole disc a little: its section is the hole's area, spread over the full diameter.
    depth = np.divide(section, width, out=np.zeros(count), where=width > 0)
    air = section < _AIR
    depth[air] = width[air] = 0.0
    index = np.clip(np.ceil(travelled / stride).astype(int) - 1, 0, count - 1)
    return np.minimum(depth, tool.deepest)[index], width[index]
