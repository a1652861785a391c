"""Logs of simulated machines: the pair of the study in native formats, fleets and single programs with a mapping.

The sheet of a pair shows every channel over a program, machines side by side, the commands below.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from numpy.typing import NDArray

from crossfeed.errors import MachineError
from crossfeed.files import atomic_file
from crossfeed.programs.blocks import Program
from crossfeed.programs.parse import program_path, read_program
from crossfeed.progress import progress
from crossfeed.schema import canonical, conversion
from crossfeed.show.figures import COLOURS, new_figure, save_figure
from crossfeed.sim import joanneum, thws
from crossfeed.sim.log_files import LogSummary, rounded, widen, write_csv
from crossfeed.sim.physics.catalogue import machine_named, random_machine
from crossfeed.sim.physics.cutting import Material, material_for, material_named, material_noted, tool_notes
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.jobs import Job, motion_limits, play, play_for, prepare
from crossfeed.sim.physics.parameters import Logging, MachineParameters
from crossfeed.sim.physics.production import Order, open_shop
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


LOG, MAPPING = "log.csv", "mapping.yaml"
GAP = 60.0  # s between the runs of a log
_SHOWN = 5  # findings of the parser that are repeated here
_RUNS = 5  # of each machine of a fleet
_LARGEST = 10_000
_FIRST, _SHARED = 11, 8  # sensors of the first machine, and those that the others share with it
_PREFIXES = ("", "drive.", "CH1_", "mc/")
_OTHER_UNITS = {"kW": "W", "mm/min": "mm/s", "rpm": "deg/s"}


def write_mapped(
    out: Path,
    machine: MachineParameters,
    runs: Sequence[tuple[str, Trace]],
    prefix: str = "",
    units: Mapping[str, str] | None = None,
    min_rows: int = 48,
) -> LogSummary:
    """Write OUT/log.csv, one row every logging period, and OUT/mapping.yaml for `crossfeed ingest table`.

    `runs` are programs and their traces at the inner rate; the control puts `prefix` before its columns and writes
    `units` in place of canonical ones.
    """
    schema, units = canonical(), units or {}
    names = (*machine.logging.sensors, *schema.command_names)
    described = [
        {
            "native": prefix + name,
            "channel": name,
            "unit": units.get(schema.channel(name).unit, schema.channel(name).unit),
        }
        for name in names
    ]
    parts: dict[str, list[Any]] = {"time": [], "session": [], "run": [], "program": []}
    parts |= {column["native"]: [] for column in described}
    ranges: dict[str, dict[str, Any]] = {}
    clock = 0.0
    for number, (program, trace) in enumerate(runs, start=1):
        stride = max(1, round(machine.logging.period / trace.time_step))
        rows = slice(stride - 1, None, stride)
        time = clock + trace.time[rows] - trace.time[0] + trace.time_step
        parts["time"].append(np.round(time, 3))
        clock = float(time[-1]) + GAP
        for label, value in (("session", f"session_{number}"), ("run", f"run_{number}"), ("program", program)):
            parts[label].append(np.full(len(time), value))
        for column in described:
            values = trace[column["channel"]][rows]
            widen(ranges, column["channel"], values)
            scale = conversion(schema.channel(column["channel"]).unit, column["unit"]).scale
            parts[column["native"]].append(rounded(values * scale, column["unit"]))
    log = out / LOG
    count = write_csv(log, {name: np.concatenate(values) for name, values in parts.items()})
    content = {
        "machine": machine.name,
        "schema": "canonical",
        "time": {"column": "time", "unit": "s"},
        "columns": described,
        **{label: {"column": label} for label in ("session", "run", "program")},
        "segmentation": {"gap_s": 5.0, "min_rows": min_rows},
    }
    mapping = yaml.safe_dump(content, sort_keys=False)
    with atomic_file(out / MAPPING) as temporary:
        temporary.write_text(mapping, encoding="utf-8")
    seconds = sum(len(trace) * trace.time_step for _, trace in runs)
    return LogSummary(machine.name, (log, out / MAPPING), count, count, len(runs), seconds, ranges)


def simulate_program(
    out: Path,
    file: str,
    machine_name: str = "spinner_620",
    material: str | None = None,
    seed: int = 0,
    stock_top: float = 0.0,
) -> LogSummary:
    """Run an NC file (or bundled:NAME) once and write OUT/log.csv, OUT/mapping.yaml and OUT/sheet.png."""
    machine, path = machine_named(machine_name), program_path(file)
    program = read_program(path)
    text = path.read_text(encoding="utf-8", errors="replace")
    job = prepare(program, motion_limits(machine), tool_notes(text), stock_top)
    chosen = material_for(text, material)
    simulated = SimulatedMachine(machine, min(0.02, machine.logging.period))
    if not round(job.seconds / simulated.time_step):
        raise MachineError(f"{path.name} takes no time at all.", expected="a program that moves or dwells")
    played = play_once(f"{program.name} on {machine.name}, {chosen.name}", simulated, job, chosen, seed)
    written = write_mapped(out, machine, [(program.name, played.trace)], min_rows=1)
    draw_sheet(out / SHEET, [played])
    remarks = _remarks(program, job, stock_top)
    if material is None and material_noted(text) is None:
        remarks.insert(0, "the material is not named in the program: aluminium is assumed (--material)")
    return replace(written, files=(*written.files, out / SHEET), remarks=tuple(remarks))


def _remarks(program: Program, job: Job, stock_top: float) -> list[str]:
    """What the user should know: unclear lines, assumed tools, a path that never meets the stock."""
    remarks = [*job.remarks]
    if job.cutting.any() and not (job.engagement.depth > 0).any():
        lowest = float(job.position[job.cutting, 2].min())
        remarks.append(
            f"nothing is cut: the stock top is z = {stock_top:g} mm and the lowest feed move is at z = {lowest:g} mm "
            "(--stock-top)"
        )
    unclear = [finding for finding in program.findings if finding.severity != "note"]
    remarks += [f"line {finding.line}: {finding.text.strip()}: {finding.reason}" for finding in unclear[:_SHOWN]]
    if len(unclear) > _SHOWN:
        remarks.append(f"{len(unclear) - _SHOWN} more findings: crossfeed program {program.name}")
    return remarks


def simulate_fleet(out: Path, count: int, seed: int = 0) -> list[LogSummary]:
    """Write OUT/<machine>/log.csv and mapping.yaml for `count` random machines, each in a dialect of its own."""
    if not 1 <= count <= _LARGEST:
        raise MachineError(f"A fleet of {count} machines cannot be simulated.", expected=f"1 to {_LARGEST:,} machines")
    written = []
    with progress("Simulating the fleet", total=count) as task:
        for number, machine in enumerate(related([random_machine(seed * 10_000 + number) for number in range(count)])):
            written.append(_at_work(out / machine.name, machine, np.random.default_rng([seed, 5, number])))
            task.advance(note=machine.name)
    return written


def related(machines: list[MachineParameters]) -> list[MachineParameters]:
    """The machines with sensors added until every one shares enough of them with the first to learn from it.

    All of them measure the power of the spindle, without which nobody can ask what a plan costs.
    """
    names, first = canonical().sensor_names, machines[0].logging.sensors
    common = {"spindle_power", *first[:1]}
    shown: list[set[str]] = []
    for machine in machines:
        sensors = {*machine.logging.sensors, *common}
        wanted = shown[0] if shown else set(names)
        missing = [name for name in names if name in wanted and name not in sensors]
        short = (_SHARED if shown else _FIRST) - len(sensors & wanted)
        shown.append(sensors | set(missing[: max(0, short)]))
    return [
        machine.model_copy(
            update={"logging": machine.logging.model_copy(update={"sensors": tuple(n for n in names if n in sensors)})}
        )
        for machine, sensors in zip(machines, shown, strict=True)
    ]


def _at_work(out: Path, machine: MachineParameters, draw: np.random.Generator) -> LogSummary:
    """Some runs of bundled programs on one machine, logged in a dialect of its own."""
    simulated = SimulatedMachine(machine)
    shop = open_shop(machine)
    state = simulated.rest(int(draw.integers(2**32)))
    runs = []
    for _ in range(_RUNS):
        product = shop.products[int(draw.integers(len(shop.products)))]
        seconds = float(draw.uniform(90, 300))
        played = play_for(
            shop.jobs[product.program], material_named(product.material), seconds, simulated.time_step, draw
        )
        trace, state = simulated.run(played.inputs, state)
        runs.append((product.program, trace))
    units = {unit: other for unit, other in _OTHER_UNITS.items() if draw.random() < 0.5}
    return write_mapped(out, machine, runs, str(draw.choice(_PREFIXES)), units)


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the two logs are."""

    thws: Order
    cycles: int  # of the JOANNEUM runs


SCALES = {
    # Five minutes for each target run: a fifth of it holds complete windows to adapt to.
    "demo": Scale(Order(rows=5_000, sessions=14, raw_rows=8_600, duplicates=12, lost_rows=3), cycles=1_050_000),
    # The sizes of the real logs.
    "full": Scale(Order(rows=29_785, sessions=62, raw_rows=52_026, duplicates=60, lost_rows=8), cycles=1_503_915),
}


def simulate_pair(
    out: Path, scale: str | Scale = "demo", seed: int = 0, measured_commands: bool = False, plots: bool = False,
    cycles: int | None = None,
) -> tuple[LogSummary, LogSummary]:  # fmt: skip
    """Write OUT/thws and OUT/joanneum, and OUT/sheet.png with plots; the same seed gives the same bytes.

    `cycles` is another length of the JOANNEUM log than the scale's.
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise MachineError(f"There is no scale '{scale}'.", expected=f"one of {', '.join(SCALES)}")
        scale = SCALES[scale]
    if seed < 0:
        raise MachineError(f"The seed {seed} cannot be used.", expected="a whole number from 0 up")
    length = scale.cycles if cycles is None else cycles
    joanneum.session_cycles(length)  # refuses a length before the first log is written
    source = thws.export(out / "thws", scale.thws, seed, measured_commands)
    target = joanneum.export(out / "joanneum", length, seed, measured_commands)
    if plots:
        pair_sheet(out / SHEET, seed)
    return source, target
