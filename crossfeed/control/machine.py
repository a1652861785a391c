"""The simulated machine under the knobs, second by second: the truth that plans and policies are judged by."""

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from crossfeed.programs.blocks import Program
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import parse_program
from crossfeed.schema import canonical, conversion
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import material_for, tool_notes
from crossfeed.sim.physics.dynamics import SimulationState
from crossfeed.sim.physics.inputs import DriveInputs
from crossfeed.sim.physics.jobs import Playback, motion_limits, play, prepare
from crossfeed.sim.physics.parameters import MachineParameters
from crossfeed.sim.physics.rollout import SimulatedMachine, Trace

PERIOD = 1.0  # s
_DONE = 1e-6  # of a step


@dataclass(frozen=True)
class Workpiece:
    """A program clamped on a simulated machine: what it will meet at every inner step if it runs as written."""

    program: Program
    machine: SimulatedMachine
    planned: Playback

    @classmethod
    def of(cls, text: str, name: str, parameters: MachineParameters, material: str | None = None) -> "Workpiece":
        """Parse, plan and mill an NC text."""
        program, machine = parse_program(text, name), SimulatedMachine(parameters)
        job = prepare(program, motion_limits(parameters), tool_notes(text))
        return cls(program, machine, play(job, material_for(text, material), machine.time_step))

    @classmethod
    def on(cls, machine: str, program: Path, material: str | None = None) -> "Workpiece":
        """The program of a file on a simulated machine by its name: spinner_620, spinner_630 or random:SEED."""
        text = program.read_text(encoding="utf-8", errors="replace")
        return cls.of(text, program.stem, machine_named(machine), material)

    @property
    def motion_limits(self) -> MotionLimits:
        """With which its timeline has to be planned to be that of this machine."""
        return motion_limits(self.machine.parameters)


@dataclass(frozen=True)
class MachineRow:
    """One row of the machine: what its log shows, and how far the program got."""

    sensors: np.ndarray  # (C,) NaN where the machine shows nothing
    commands: np.ndarray  # (A,)
    truth: np.ndarray  # (C,) all sensors
    position: float  # s of the program as written, at the end
    seconds: float  # that the row took; the last one may be shorter


class MachineRun:
    """A machine that is running a workpiece; each `step` is a period under fixed knobs."""

    def __init__(self, piece: Workpiece, state: SimulationState | None = None, seed: int = 0) -> None:
        self.piece = piece
        self.state = piece.machine.rest(seed) if state is None else state
        self._reached = 0.0  # inner steps done
        self._steps = round(PERIOD / piece.machine.time_step)

    @property
    def position(self) -> float:
        """Seconds of the program as written that are behind."""
        return self._reached * self.piece.machine.time_step

    @property
    def done(self) -> bool:
        return self._reached >= len(self.piece.planned) - _DONE

    def stand(self, rows: int) -> list[MachineRow]:
        """Let the machine stand idle before the program begins, so that there is a history."""
        trace, self.state = self.piece.machine.run(DriveInputs.idle(rows * self._steps), self.state)
        return [self._row(trace, row, PERIOD) for row in range(rows)]

    def step(self, feed: float, spindle: float) -> MachineRow:
        """Go on for one period, or to the end."""
        trace = self._advance(feed, spindle, self._steps, len(self.piece.planned))
        return self._row(trace, 0, len(trace) * self.piece.machine.time_step)

    def stretch(self, position: float, feed: float, spindle: float) -> tuple[float, np.ndarray]:
        """Go on to a position under fixed knobs: the seconds that took, and the true sensors (R, C) of each."""
        until = min(position / self.piece.machine.time_step, len(self.piece.planned))
        trace = self._advance(feed, spindle, None, until)
        edges = np.append(np.arange(0, len(trace), self._steps), len(trace))
        rows = [trace.sensors[first:last].mean(axis=0) for first, last in pairwise(edges)]
        return len(trace) * self.piece.machine.time_step, np.array(rows)

    def _advance(self, feed: float, spindle: float, count: int | None, until: float) -> Trace:
        """Inner steps under fixed knobs, `count` of them or as many as it takes."""
        planned = self.piece.planned
        paces = np.array([1.0, 1.0 if feed > 0.0 else 0.0, feed, feed * spindle])
        steps: list[int] = []
        pace_of, reached = [], self._reached
        while count is None or len(steps) < count:
            at = min(int(reached + _DONE), len(planned) - 1)
            pace = paces[planned.motion[at]]
            steps.append(at)
            pace_of.append(pace)
            reached += pace
            if reached >= until - _DONE:
                break
        self._reached = reached
        met = planned[np.array(steps)]
        inputs = replace(
            met.inputs,
            spindle_speed=met.inputs.spindle_speed * spindle,
            feed=met.inputs.feed * np.array(pace_of)[:, None],
        )
        trace, self.state = self.piece.machine.run(inputs, self.state)
        return trace

    def _row(self, trace: Trace, row: int, seconds: float) -> MachineRow:
        """A row as this machine's log gives it: the last sample of a slow log, the mean of a fast one."""
        part = slice(row * self._steps, (row + 1) * self._steps)
        logging = self.piece.machine.parameters.logging
        sampled = logging.period >= PERIOD
        truth = trace.sensors[part][-1] if sampled else trace.sensors[part].mean(axis=0)
        commands = (trace.commands[part][-1] if sampled else trace.commands[part].mean(axis=0)).copy()
        commands[0] = abs(commands[0])
        shown = [name in logging.sensors for name in canonical().sensor_names]
        return MachineRow(
            np.where(shown, truth, np.nan), commands, trace.sensors[part].mean(axis=0), self.position, seconds
        )


def drive_kilowatts(truth_xC: np.ndarray) -> np.ndarray:
    """What all drives draw together, of true sensors in any number of rows."""
    scales = [conversion(each.unit, "kW").scale if each.quantity == "power" else 0.0 for each in canonical().sensors]
    return np.asarray(truth_xC @ np.array(scales))
