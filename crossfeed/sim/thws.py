"""A simulated Spinner U5-620 writes its days in the native format of the THWS log: one CSV, one row a second."""

from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.logs.data_sets import THWS
from crossfeed.programs.blocks import Setup
from crossfeed.progress import progress
from crossfeed.sim.log_files import LogSummary, rounded, widen, write_csv
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import material_named
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.jobs import Motion, Playback, play_for
from crossfeed.sim.physics.parameters import RAD_PER_RPM, Floats
from crossfeed.sim.physics.production import DAYS, JOG_PROGRAM, Order, Phase, Shop, Status, open_shop, plan_days
from crossfeed.sim.physics.rollout import SimulatedMachine, Trace

FILE = "data_v1_0_1.csv"
TIME_STEP = 0.02
_STARTS = np.array(["2024-03-12T08:16:30", "2024-03-20T06:40:02", "2024-03-22T06:31:17"], dtype="datetime64[ms]")
_MISSING = 0.0008  # share of sensor and feed entries without a value
_WORK_OFFSET = Setup().work_offset  # machine coordinates of the work zero
_PATHS = {JOG_PROGRAM: f"/_N_MPF_DIR/_N_{JOG_PROGRAM}_MPF"}


def export(out: Path, order: Order, seed: int, measured_commands: bool = False) -> LogSummary:
    """Simulate the days of an order and write them to OUT/data_v1_0_1.csv."""
    machine = SimulatedMachine(machine_named("spinner_620"), TIME_STEP)
    shop = open_shop(machine.parameters)
    days = plan_days(order, shop.products, shop.warm_up, seed)
    draw = np.random.default_rng([seed, 2])
    duplicates = draw.multinomial(order.duplicates, [1 / len(days)] * len(days))
    seconds = sum(phase.seconds for phases in days for phase in phases)
    parts = []
    with progress("Simulating the THWS log", total=seconds) as task:
        for number, phases in enumerate(days):
            day = _Day(machine, shop, seed, number, measured_commands)
            day.choose_doubled(phases, int(duplicates[number]))
            for phase in phases:
                day.simulate(phase)
                task.advance(phase.seconds, note=f"day {number + 1}")
            parts.append(day.columns())
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    ranges: dict[str, dict[str, Any]] = {}
    for column in THWS.columns:
        widen(ranges, column.channel, columns[column.native])
    path = out / FILE
    raw_rows = write_csv(path, columns, header="," + ",".join(list(columns)[1:]))
    return LogSummary("thws", (path,), raw_rows, order.rows, order.sessions, float(seconds), ranges)


class _Day:
    """One day of the machine: phases go in, log rows come out."""

    def __init__(self, machine: SimulatedMachine, shop: Shop, seed: int, number: int, measured: bool) -> None:
        self.machine, self.shop, self.measured = machine, shop, measured
        self.state = machine.rest(seed * DAYS + number, cold=True)
        self.start = _STARTS[number]
        self.draw = np.random.default_rng([seed, 3, number])
        self.second = 0
        self.rows: list[dict[str, Any]] = []
        self.running: tuple[int, Playback] | None = None
        self.position = np.zeros(3)
        self.doubled = np.array([], dtype=np.int64)  # seconds of the day that the log holds twice

    def choose_doubled(self, phases: list[Phase], count: int) -> None:
        """Choose the seconds in which the logger fires twice."""
        starts = np.cumsum([0, *(phase.seconds for phase in phases)])
        logged = [start + np.setdiff1d(np.arange(phase.seconds), phase.lost) for start, phase in zip(starts, phases)]
        self.doubled = self.draw.choice(np.concatenate(logged), count, replace=False)

    def simulate(self, phase: Phase) -> None:
        """Run the machine through a phase and log it."""
        playback = self._playback(phase)
        trace, self.state = self.machine.run(playback.inputs, self.state)
        self.position = playback.position[-1]
        moments = np.clip(0.5 + 0.15 * self.draw.standard_normal(phase.seconds), 0.0, 0.998)
        logged = np.setdiff1d(np.arange(phase.seconds), phase.lost)
        twice = logged[np.isin(self.second + logged, self.doubled)]
        seconds = np.concatenate((logged + moments[logged], twice + (moments[twice] + 1) / 2))
        if len(seconds):
            self.rows.append(self._log(phase, playback, trace, np.sort(seconds)))
        self.second += phase.seconds

    def _playback(self, phase: Phase) -> Playback:
        steps = round(phase.seconds / self.machine.time_step)
        if phase.kind == "jog":
            return _standing(jogging(steps, self.machine.time_step, self.draw), self.position)
        if phase.kind == "idle" or phase.product is None:
            return _standing(DriveInputs.idle(steps), self.position)
        if phase.run < 0 or self.running is None or self.running[0] != phase.run:
            job, material = self.shop.jobs[phase.product.program], material_named(phase.product.material)
            played = play_for(job, material, phase.run_seconds, self.machine.time_step, self.draw)
            self.running = (phase.run, played)
        played = self.running[1]
        first = round(phase.offset / self.machine.time_step)
        if phase.kind == "run":
            return played[first : first + steps]
        # A feed hold leaves the spindle turning, a stop does not.
        speed = played.inputs.spindle_speed[first - 1] if phase.status == Status.INTERRUPTED else 0.0
        return _standing(DriveInputs.held([[speed, 0, 0, 0]], steps), self.position)

    def _log(self, phase: Phase, playback: Playback, trace: Trace, seconds: Floats) -> dict[str, Any]:
        """Rows at these seconds of a phase; a stamp is the whole second a row falls in."""
        index = (seconds / self.machine.time_step).astype(int)
        count = len(index)
        job = self.shop.jobs[phase.product.program] if phase.product else None
        commands = trace.commands[index]
        speed = trace.physics.spindle_speed[index] / RAD_PER_RPM
        velocity = trace.physics.axis_velocity[:, index] * 60
        rows: dict[str, Any] = {"time": self.start + (self.second + np.floor(seconds)).astype("timedelta64[s]")}
        rows["Door_open"] = np.full(count, "True" if phase.door_open else "False")
        for axis, letter in enumerate("XYZ"):
            rows[f"{letter}-axis_feed"] = velocity[axis] if self.measured else commands[:, axis + 1]
            rows[f"{letter}-axis_position_MCS"] = playback.position[index, axis] + _WORK_OFFSET[axis]
        rows["Spindle_angular_velocity"] = np.abs(speed) * 360
        rows["Operation_mode"] = np.full(count, 0.0 if phase.kind == "jog" else 2.0)
        in_run = phase.kind in ("run", "hold")
        rows["Cycle_time_program"] = (phase.offset + index * self.machine.time_step) * in_run
        rows["Program_status"] = np.full(count, float(phase.status))
        rows["Program_line_number"] = playback.line[index].astype(float)
        program = phase.program
        rows["Program_path"] = np.full(count, _PATHS.get(program, f"/_N_WKS_DIR/_N_{program}_WPD/_N_{program}_MPF"))
        names = np.array([tool.name for tool in job.tools] if job else [""], dtype=object)
        rows["Tool_ID"] = names[playback.tool[index]]
        rows["Feed_override"] = np.round(playback.override[index] * 100)
        rows["Spindle_speed"] = np.abs(speed if self.measured else commands[:, 0])
        rows["Spindle_smoothed_speed"] = -speed
        rows["X_Axis_smoothed_speed"] = velocity[0] / self.machine.parameters.x.pitch
        for column in THWS.columns:
            if column.native not in rows:
                rows[column.native] = trace[column.channel][index]
        return rows

    def columns(self) -> dict[str, Any]:
        """The day's rows numbered from 0, with some entries missing."""
        joined = {name: np.concatenate([rows[name] for rows in self.rows]) for name in self.rows[0]}
        columns: dict[str, Any] = {"": np.arange(len(joined["time"]))}
        units = {column.native: column.unit for column in THWS.columns}
        for name, values in joined.items():
            columns[name] = rounded(values, units.get(name, "mm")) if values.dtype == np.float64 else values
            if name in units:
                columns[name][self.draw.random(len(values)) < _MISSING] = np.nan
        return columns


def _standing(inputs: DriveInputs, position: Floats) -> Playback:
    """Inputs without a program: the control shows no line and 100 % override."""
    count = len(inputs)
    travelled = np.cumsum(inputs.feed, axis=0) / 60 * TIME_STEP
    zero = np.zeros(count, dtype=np.int64)
    motion = np.where(inputs.feed.any(axis=1), Motion.FEED, Motion.STANDING)
    return Playback(inputs, position + travelled, zero, zero, np.ones(count), motion)


def jogging(steps: int, time_step: float, draw: np.random.Generator) -> DriveInputs:
    """An operator jogs one axis at a time to touch off a part, with pauses to look."""
    commands = np.zeros((steps, 4))
    now = 0
    while now < steps:
        length = int(draw.uniform(0.5, 3.0) / time_step)
        axis = int(draw.integers(1, 4))
        commands[now : now + length, axis] = draw.choice((-1, 1)) * draw.choice((200.0, 1000.0, 2000.0, 6000.0))
        now += length + int(draw.uniform(0.3, 2.0) / time_step)
    return DriveInputs.idle(steps).with_commands(commands)
