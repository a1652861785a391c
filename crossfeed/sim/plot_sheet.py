"""The sheet a machinist would look at: every channel over a program, machines side by side, the commands below."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crossfeed.progress import progress
from crossfeed.schema import canonical
from crossfeed.show.figures import COLOURS, new_figure, save_figure
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import Material, material_named
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.jobs import Job, play
from crossfeed.sim.physics.parameters import Logging, MachineParameters
from crossfeed.sim.physics.production import open_shop
from crossfeed.sim.physics.rollout import SimulatedMachine, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHEET = "sheet.png"
_TEMPERATURES = ("spindle_motor_temp", "x_motor_temp", "y_motor_temp", "z_motor_temp", "ambient_temp")
# One panel per row; channels of one panel share its axis.
_PANELS: tuple[tuple[str, ...], ...] = (
    *((name,) for name in canonical().sensor_names[:10]),
    _TEMPERATURES,
    ("spindle_dc_voltage",),
    ("spindle_mod_depth",),
    *((name,) for name in canonical().command_names),
)
# Start-up and rapid peaks are ten times what a cut needs: these panels show the cut and let the peaks run off.
_PEAKED = canonical().sensor_names[:10] + canonical().command_names[1:]
_IDLE = 8.0  # s before and after a program
_PAIR_PROGRAM = "FACE_POCKET"
_QUICK = 0.2  # s between rows, below which single rows cannot be told apart
_ENGAGED, _PALE = "#f3e9d8", "#a8cbe4"


@dataclass(frozen=True, slots=True)
class SheetColumn:
    """One machine on the sheet: its trace at the inner rate, what it logs, and when the tool is in the stock."""

    title: str
    trace: Trace
    logging: Logging
    engaged: NDArray[np.bool_]


def draw_sheet(path: Path, columns: Sequence[SheetColumn]) -> None:
    """Draw machines side by side; what a machine does not log says so."""
    with progress("Drawing the sheet"), new_figure(max(7.0, 4.3 * len(columns)), 0.64 * len(_PANELS)) as figure:
        grid = figure.subplots(len(_PANELS), len(columns), sharex="col", squeeze=False)
        for index, column in enumerate(columns):
            seconds = column.trace.resample(1.0) if column.logging.period < _QUICK else None
            for row, names in enumerate(_PANELS):
                _panel(grid[row, index], column, names, seconds)
            grid[0, index].set_title(column.title, fontsize=8)
            grid[-1, index].set_xlabel("s")
        for row, names in enumerate(_PANELS):
            _share_scale(list(grid[row]), robust=names[0] in _PEAKED)
        save_figure(figure, path)


def _panel(axes: "Axes", column: SheetColumn, names: tuple[str, ...], seconds: Trace | None) -> None:
    """One panel: the log itself, with its means over a second where rows come quickly."""
    schema = canonical()
    logged = [name for name in names if name in (*column.logging.sensors, *schema.command_names)]
    quantity = schema.channel(names[0])
    label = names[0].replace("_", "\n", 1).replace("_", " ") if len(names) == 1 else "temperatures"
    axes.set_ylabel(f"{label}\n{quantity.unit}", fontsize=6)
    axes.tick_params(labelsize=6)
    start = float(column.trace.time[0])
    if not logged:
        grey: dict[str, Any] = {"color": "#888888", "fontsize": 7, "ha": "center", "va": "center"}
        axes.text(0.5, 0.5, "not logged on this machine", transform=axes.transAxes, **grey)
        axes.set_yticks([])
        return
    second = round(1.0 / column.trace.time_step)
    moments, engaged = column.trace.time[::second] - start, column.engaged[::second]
    ground = axes.get_xaxis_transform()
    axes.fill_between(moments, 0, 1, where=engaged, transform=ground, color=_ENGAGED, linewidth=0, step="post")
    stride = max(1, round(column.logging.period / column.trace.time_step))
    for name, colour in zip(logged, COLOURS):
        time, values = column.trace.time[::stride] - start, column.trace[name][::stride]
        if seconds and name in schema.sensor_names:
            axes.plot(time, values, color=_PALE, linewidth=0.4)
            time, values = seconds.time - start, seconds[name]
        axes.plot(time, values, color=colour, linewidth=0.7, label=name.split("_")[0] if len(names) > 1 else None)
    if len(names) > 1:
        axes.set_ylim(top=axes.get_ylim()[1] + np.ptp(axes.get_ylim()))
        axes.legend(fontsize=5, ncols=len(names), loc="upper left")
    else:
        low, high = float(column.trace[names[0]].min()), float(column.trace[names[0]].max())
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        span = f"{low:,.0f} to {high:,.0f}" if high > 1000 else f"{low:.3g} to {high:.3g}"
        axes.text(0.995, 0.84, span, transform=axes.transAxes, ha="right", fontsize=5, bbox=box)


def _share_scale(row: "list[Axes]", robust: bool) -> None:
    """The same limits for every machine that logs the channel; peaks of a second or less may leave a robust panel."""
    shown = [axes for axes in row if axes.lines]
    if not shown:
        return
    if robust:
        spans = np.array([np.quantile(np.asarray(axes.lines[-1].get_ydata()), (0.02, 0.98)) for axes in shown])
        low, high = spans[:, 0].min(), spans[:, 1].max()
        low, high = low - 0.6 * (high - low), high + 0.6 * (high - low)
    else:
        limits = np.array([axes.get_ylim() for axes in shown])
        low, high = limits[:, 0].min(), limits[:, 1].max()
    if high - low < 1e-6:
        low, high = low - 1.0, high + 1.0
    for axes in shown:
        axes.set_ylim(low, high)


def pair_sheet(path: Path, seed: int) -> None:
    """The same program on both Spinners, as each of them would log it."""
    draw_sheet(path, [_played(machine_named(name), seed) for name in ("spinner_620", "spinner_630")])


def _played(machine: MachineParameters, seed: int) -> SheetColumn:
    shop = open_shop(machine, {_PAIR_PROGRAM})
    (product,) = shop.products
    period = f"{machine.logging.period:g} s" if machine.logging.period >= 1 else f"{machine.logging.period * 1000:g} ms"
    title = f"{machine.name}: {_PAIR_PROGRAM} in {product.material}, a row every {period}"
    simulated = SimulatedMachine(machine, min(0.02, machine.logging.period))
    return play_once(title, simulated, shop.jobs[_PAIR_PROGRAM], material_named(product.material), seed)


def play_once(title: str, machine: SimulatedMachine, job: Job, material: Material, seed: int) -> SheetColumn:
    """A job from its start to its end, with seconds of standing before and after it."""
    idle = DriveInputs.idle(round(_IDLE / machine.time_step))
    played = play(job, material, machine.time_step)
    inputs = DriveInputs.joined([idle, played.inputs, idle])
    trace, _ = machine.run(inputs, machine.rest(seed))
    return SheetColumn(title, trace, machine.parameters.logging, inputs.depth > 0)
