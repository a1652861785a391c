"""A simulated Spinner U5-630 writes its runs in the native format of the JOANNEUM log: every 2 ms cycle, 11 files."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfeed.errors import MachineError
from crossfeed.logs.data_sets import JOANNEUM
from crossfeed.progress import progress
from crossfeed.schema import canonical, conversion
from crossfeed.sim.log_files import LogSummary, rounded, widen, write_csv
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import material_named
from crossfeed.sim.physics.jobs import Playback, play_for
from crossfeed.sim.physics.parameters import RAD_PER_RPM, Floats
from crossfeed.sim.physics.production import Shop, open_shop
from crossfeed.sim.physics.rollout import SimulatedMachine, Trace

Integers = NDArray[np.int64]

CYCLE = 0.002  # s
_SHORT = 21_310  # cycles of the one session that is too short for a window, 42.6 s
_LEAST = 25_000  # cycles of every other session, 50 s
_DOUBLED = 0.0002  # share of cycles that a file holds twice
_CHUNK = 20_000  # cycles of a redundant chunk file


@dataclass(frozen=True, slots=True)
class RunKind:
    """One of the seven runs: what is made of what, and how its log is cut up.

    A session is a `part`, a file of its own, or a `block` of cycles after a break in the one file; `short` is a block
    too short for a window.
    """

    name: str
    program: str
    material: str
    sessions: tuple[str, ...]
    weight: float


# Seven runs, eleven files, thirteen sessions; the first session of Enerman_PLA is the short one.
RUNS = (
    RunKind("Enerman_Alu", "BRACKET", "aluminium", ("block", "block"), 1.5),
    RunKind("Enerman_PLA", "BRACKET", "pla", ("short", "block"), 1.1),
    RunKind("Enerman_Part2", "CONTOUR_HELIX", "aluminium", ("block",), 0.8),
    RunKind("WG_Vorderseite_Alu", "FACE_POCKET", "aluminium", ("part", "part"), 1.0),
    RunKind("WG_Vorderseite_PLA", "FACE_POCKET", "pla", ("part", "part"), 0.9),
    RunKind("WG_Rueckseite_Alu", "PLA_COVER", "aluminium", ("part", "part"), 0.8),
    RunKind("WG_Rueckseite_PLA", "PLA_COVER", "pla", ("part", "part"), 0.7),
)


def session_cycles(cycles: int) -> dict[str, list[int]]:
    """How many cycles each session of each run has; all together exactly `cycles`."""
    long = [(run, number) for run in RUNS for number, kind in enumerate(run.sessions) if kind != "short"]
    spare = cycles - _SHORT - _LEAST * len(long)
    if spare < 0:
        raise MachineError(
            f"{cycles} cycles are too few for thirteen sessions.",
            expected=f"at least {_SHORT + _LEAST * len(long)} cycles, so that twelve of them give windows",
        )
    weights = np.array([run.weight * (1.15 if number else 0.85) / len(run.sessions) for run, number in long])
    shares = np.floor(weights / weights.sum() * spare).astype(int)
    shares[0] += spare - int(shares.sum())
    lengths = {run.name: [_SHORT] * len(run.sessions) for run in RUNS}
    for (run, number), share in zip(long, shares.tolist()):
        lengths[run.name][number] = _LEAST + share
    return lengths


def export(out: Path, cycles: int, seed: int, measured_commands: bool = False) -> LogSummary:
    """Simulate the seven runs and write them to OUT/<run>/<run>_full.csv or _part1.csv and _part2.csv."""
    lengths = session_cycles(cycles)
    machine = SimulatedMachine(machine_named("spinner_630"), CYCLE)
    shop = open_shop(machine.parameters, {run.program for run in RUNS})
    files: list[Path] = []
    ranges: dict[str, dict[str, Any]] = {}
    raw_rows = 0
    with progress("Simulating the JOANNEUM runs", total=len(RUNS)) as task:
        for number, run in enumerate(RUNS):
            log = _RunLog(machine, shop, run, lengths[run.name], np.random.default_rng([seed, 4, number]))
            columns = log.columns(seed * len(RUNS) + number, measured_commands)
            for column in JOANNEUM.columns:
                scale = conversion(column.unit, canonical().channel(column.channel).unit).scale
                widen(ranges, column.channel, columns[column.native] * scale)
            for path, rows in log.files(out / run.name):
                raw_rows += _write_rows(path, columns, rows)
                files.append(path)
            if number == 0:
                _write_rows(out / run.name / f"{run.name}_chunk1.csv", columns, np.arange(_CHUNK))
                _write_rows(out / run.name / f"{run.name}_chunk2.csv", columns, np.arange(_CHUNK, 2 * _CHUNK))
            task.advance(note=run.name)
    sessions = sum(len(run.sessions) for run in RUNS)
    return LogSummary("joanneum", tuple(files), raw_rows, cycles, sessions, cycles * CYCLE, ranges)


def _write_rows(path: Path, columns: dict[str, Any], rows: Integers) -> int:
    return write_csv(path, {name: values[rows] for name, values in columns.items()})


class _RunLog:
    """One run: simulated without a break, logged with one."""

    def __init__(
        self, machine: SimulatedMachine, shop: Shop, run: RunKind, lengths: list[int], draw: np.random.Generator
    ) -> None:
        self.machine, self.run, self.lengths, self.draw = machine, run, lengths, draw
        self.in_parts = "part" in run.sessions
        # Between two blocks of one file the trace was off for a while; two parts follow each other directly.
        self.gap = 0 if self.in_parts or len(lengths) == 1 else int(draw.integers(1500, 9000))
        self.first_cycle = int(draw.integers(1000, 90_000))
        steps = sum(lengths) + self.gap * (len(lengths) - 1)
        self.playback = play_for(shop.jobs[run.program], material_named(run.material), steps * CYCLE, CYCLE, draw)
        starts = np.cumsum([0, *(length + self.gap for length in lengths)])[:-1]
        self.logged = np.concatenate([start + np.arange(length) for start, length in zip(starts, lengths)])

    def columns(self, seed: int, measured: bool) -> dict[str, Any]:
        """Every logged cycle in order, by the native names and units."""
        trace, _ = self.machine.run(self.playback.inputs, self.machine.rest(seed))
        session = np.repeat(np.arange(len(self.lengths)), self.lengths)
        columns: dict[str, Any] = {
            "Cycle": self.first_cycle + self.logged,
            "part": session + 1 if self.in_parts else np.ones_like(session),
            "block": np.zeros_like(session) if self.in_parts else session,
        }
        channels = _measured(trace) if measured else {}
        for column in JOANNEUM.columns:
            values = channels.get(column.channel, trace[column.channel])[self.logged]
            scale = conversion(canonical().channel(column.channel).unit, column.unit).scale
            columns[column.native] = rounded(values * scale, column.unit)
        columns |= _positions(self.playback, trace, self.logged)
        return columns

    def files(self, folder: Path) -> list[tuple[Path, Integers]]:
        """Each file with the rows it holds; a few stretches of cycles come twice, the second time at the end."""
        edges = np.cumsum([0, *self.lengths])
        if self.in_parts:
            pieces = [
                (f"{self.run.name}_part{number + 1}.csv", np.arange(start, stop))
                for number, (start, stop) in enumerate(pairwise(edges.tolist()))
            ]
        else:
            pieces = [(f"{self.run.name}_full.csv", np.arange(edges[-1]))]
        return [(folder / name, np.concatenate((rows, self._again(rows)))) for name, rows in pieces]

    def _again(self, rows: Integers) -> Integers:
        count = max(1, round(_DOUBLED * len(rows)))
        start = int(self.draw.integers(0, len(rows) - count))
        return rows[start : start + count]


def _measured(trace: Trace) -> dict[str, Floats]:
    """Actual instead of commanded speeds, in canonical units."""
    feeds = {f"feed_{letter}": trace.physics.axis_velocity[axis] * 60 for axis, letter in enumerate("xyz")}
    return {"spindle_speed": trace.physics.spindle_speed / RAD_PER_RPM, **feeds}


def _positions(playback: Playback, trace: Trace, logged: Integers) -> dict[str, Any]:
    """Surplus columns of the controller trace: axis positions in mm and the spindle angle in degrees."""
    angle = np.rad2deg(np.cumsum(trace.physics.spindle_speed) * CYCLE) % 360
    columns = {f"Position_{letter}1": playback.position[logged, axis] for axis, letter in enumerate("XYZ")}
    return {name: rounded(values, "mm") for name, values in columns.items()} | {
        "Position_SP1": rounded(angle[logged], "deg")
    }
