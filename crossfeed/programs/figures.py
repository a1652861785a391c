"""A program at a glance: its figures, its path on the workpiece, and its commands over time."""

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.programs.blocks import Move, Program
from crossfeed.programs.legs import table_turn
from crossfeed.programs.trajectory import CommandTrace, Trajectory
from crossfeed.show.figures import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RAPID_COLOUR = "#c8c8c8"
_POINTS_PER_TURN = 48


def summarise(program: Program, trajectory: Trajectory) -> dict[str, Any]:
    """A program and its plan in numbers, for JSON: mm, s, rpm and mm/min."""
    moves = program.moves
    cutting = [move for move in moves if move.feed is not None and move.spindle]
    return {
        "name": program.name,
        "lines": program.lines,
        "blocks": len(program.blocks),
        "motion_lines": program.motion_lines,
        "understood_motion_lines": program.understood_motion_lines,
        "understood": program.understood,
        "path_length": sum(move.length for move in moves),
        "cutting_length": sum(move.length for move in cutting),
        "rapid_length": sum(move.length for move in moves if move.feed is None),
        "programmed_cutting_time": program.programmed_cutting_time,
        "cutting_time": trajectory.cutting_time,
        "rapid_time": trajectory.rapid_time,
        "total_time": trajectory.duration,
        "tools": tuple(tool for tool in trajectory.tools if tool),
        "spindle_speeds": tuple(sorted({abs(block.spindle) for block in cutting})),
        "feeds": tuple(sorted({round(move.feed, 3) for move in moves if move.feed is not None})),
        "skipped_calls": program.skipped_calls,
        "findings": tuple(sorted((*program.findings, *trajectory.remarks), key=lambda finding: finding.line)),
    }


def draw_program(program: Program, trajectory: Trajectory, path: Path | str, rate_hz: float = 1.0) -> None:
    """Write one figure: the path in space and from above, coloured by feed, with the commands below."""
    with new_figure(12.0, 10.5) as figure:
        parts: Any = figure.subfigures(2, 1, height_ratios=(3, 2))
        _draw_path(parts[0], program)
        _draw_commands(parts[1], trajectory.sample(rate_hz, "mean"), trajectory)
        tools = ", ".join(tool for tool in trajectory.tools if tool) or "no tool named"
        figure.suptitle(f"{program.name}: {trajectory.duration / 60:.1f} min, {tools}")
        save_figure(figure, path)


def outline(move: Move) -> np.ndarray:
    """Points along a move, in the coordinates of the workpiece, (n, 3)."""
    if move.arc is None:
        points = np.array([move.start, move.end])
    else:
        arc = move.arc
        share = np.linspace(0.0, 1.0, max(3, int(np.ceil(arc.sweep / (2 * np.pi) * _POINTS_PER_TURN)) + 1))[:, None]
        spoke = np.cos(arc.sweep * share) * np.array(arc.across) + np.sin(arc.sweep * share) * np.array(arc.along)
        points = np.array(arc.center) + (arc.radius + arc.radius_change * share) * spoke + share * np.array(arc.rise)
    return np.asarray(points @ table_turn(move.table))


def _draw_path(figure: Any, program: Program) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize
    from matplotlib.ticker import MaxNLocator
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    feeds = [(outline(move), move.feed) for move in program.moves if move.feed is not None]
    rapids = [outline(move) for move in program.moves if move.feed is None]
    corners = np.concatenate([points for points, _ in feeds] or rapids or [np.zeros((1, 3))])
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = 0.06 * max(float((high - low).max()), 1.0)
    low, high = low - margin, high + margin
    near = [points for points in rapids if ((points >= low) & (points <= high)).all()]
    lines = [points for points, _ in feeds]
    values = np.array([feed for _, feed in feeds])
    scale = Normalize(values.min() * 0.999, values.max() * 1.001) if lines else None

    space = figure.add_subplot(1, 2, 1, projection="3d")
    if near:
        space.add_collection3d(Line3DCollection(near, colors=_RAPID_COLOUR, linewidths=0.4))
    if lines:
        space.add_collection3d(Line3DCollection(lines, array=values, norm=scale, cmap="viridis", linewidths=0.8))
    space.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    space.set(xlabel="X", ylabel="Y", title="Path on the workpiece, in mm")
    space.set_box_aspect(high - low, zoom=0.9)
    for axis in (space.xaxis, space.yaxis, space.zaxis):
        axis.set_major_locator(MaxNLocator(4))

    above = figure.add_subplot(1, 2, 2)
    above.add_collection(LineCollection([points[:, :2] for points in near], colors=_RAPID_COLOUR, linewidths=0.4))
    if lines:
        cuts = LineCollection(
            [points[:, :2] for points in lines], array=values, norm=scale, cmap="viridis", linewidths=0.8
        )
        above.add_collection(cuts)
        figure.colorbar(cuts, ax=above, label="programmed feed in mm/min (rapid: grey)", shrink=0.8)
    above.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="X in mm", ylabel="Y in mm", title="From above")
    above.set_aspect("equal")


def _draw_commands(figure: "Figure", trace: CommandTrace, trajectory: Trajectory) -> None:
    rows: Any = figure.subplots(4, 1, sharex=True)
    minutes = trace.time / 60.0
    signals = (
        ("spindle\nin rpm", trace.spindle_speed),
        *((f"feed {axis}\nin mm/min", feed) for axis, feed in zip("XYZ", trace.feed.T)),
    )
    changes = np.flatnonzero(np.diff(trace.tool))
    for axes, (label, values) in zip(rows, signals):
        axes.step(minutes, values, where="pre", linewidth=0.8)
        axes.fill_between(
            minutes, 0, 1, where=trace.cutting, transform=axes.get_xaxis_transform(), alpha=0.08, step="pre"
        )
        axes.set_ylabel(label)
        for change in changes:
            axes.axvline(minutes[change], color="#888888", linewidth=0.6, linestyle=":")
    starts = [0, *(changes + 1), len(trace) - 1]
    for start, following in pairwise(starts):
        # A name needs about a tenth of the width; shorter stretches stay without one.
        if minutes[following] - minutes[start] > 0.1 * minutes[-1]:
            name = trajectory.tools[trace.tool[start]]
            above = rows[0].get_xaxis_transform()
            rows[0].text(minutes[start], 1.04, name, transform=above, fontsize=6.5, color="#555555")
    for axes in rows[1:]:
        # Rapids are ten times faster than cuts: a linear scale around the cuts, a logarithmic one beyond.
        axes.set_yscale("symlog", linthresh=1000.0, linscale=1.5)
        axes.set_yticks([-10_000, -1_000, 0, 1_000, 10_000], labels=["−10 000", "−1 000", "0", "1 000", "10 000"])
        axes.minorticks_off()
    rows[-1].set_xlabel(f"time in min (means over {1.0 / trace.rate:g} s; shaded: cutting; dotted: tool change)")
