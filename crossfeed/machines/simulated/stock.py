"""The stock as a height map: what the tool really meets along its path, with entry, exit and cuts in the air."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossfeed.machines.simulated.materials_and_tools import Tool
from crossfeed.machines.simulated.noise import Floats

_CELL = 0.5  # mm, side of a height cell
_STRIDE, _STRIDES = 0.5, 12.0  # mm along the path between two looks at the stock, or a part of the tool's diameter
_LOOKS = 5  # neighbouring looks that are averaged: cells are square, chips are not
_MOST_CELLS = 4_000_000  # larger parts get coarser cells
_FACE_MILL = 25.0  # mm of diameter from which a tool is one
_AIR = 1e-3  # mm^2, a chip cross-section that counts as none


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
        own = position[samples[tool[samples] == tool_number], :2]
        overrun = tools[int(tool_number)].diameter / 2 if tools[int(tool_number)].diameter >= _FACE_MILL else 0.0
        middle = (own.min(axis=0) + own.max(axis=0)) / 2
        low = np.minimum(low, np.minimum(own.min(axis=0) + overrun, middle))
        high = np.maximum(high, np.maximum(own.max(axis=0) - overrun, middle))
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
