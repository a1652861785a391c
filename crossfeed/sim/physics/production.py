"""A shop's days as phases: runs of products, part changes, changeovers with jogging, interruptions, lost log seconds.

The plan fixes to the second which log rows survive segmentation, so that a log of any size can be ordered exactly."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from typing import Literal

import numpy as np

from crossfeed.errors import MachineError
from crossfeed.programs.blocks import Setup
from crossfeed.programs.motion import MotionLimits
from crossfeed.programs.parse import bundled_programs, parse_program
from crossfeed.sim.physics.cutting import material_for, tool_notes
from crossfeed.sim.physics.jobs import Job, motion_limits, prepare
from crossfeed.sim.physics.parameters import MachineParameters

DAYS = 3  # as in the real log
JOG_PROGRAM = "MA_JOG_STEP1"
SHORTEST_SESSION = 64  # rows; shorter ones are dropped by the segmentation of the THWS log
WARM_UP = "SPINDLE_WARMUP"
_WARM_UP_SPEEDS = (3000, 6000, 9000, 12000, 15000, 18000)
SPLITTING_GAP = 5  # s; a longer gap begins a new session


class Status(IntEnum):
    """Program_status of the control."""

    INTERRUPTED = 1
    STOPPED = 2
    RUNNING = 3
    FINISHED = 5


@dataclass(frozen=True, slots=True)
class Product:
    """A part the shop makes: its program and the material it is made of."""

    program: str
    material: str
    seconds: float  # a pass takes at 100 % override


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of whole seconds in which the status and the program path stay the same."""

    kind: Literal["idle", "jog", "run", "hold"]
    seconds: int
    status: Status
    program: str
    run: int = -1  # runs are numbered; the phases of one run continue each other
    product: Product | None = None
    run_seconds: int = 0  # of the whole run
    offset: int = 0  # seconds of the run before this phase
    lost: tuple[int, ...] = ()  # seconds of the phase that the log misses
    door_open: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """How large a log shall be."""

    rows: int  # that survive segmentation
    sessions: int
    raw_rows: int  # of the whole log
    duplicates: int  # rows that repeat the stamp of the row before
    lost_rows: int  # missing seconds inside surviving sessions

    def __post_init__(self) -> None:
        needed = self.rows + self.duplicates + 30 * self.sessions + 40 * DAYS
        if self.sessions < DAYS or self.rows < 70 * self.sessions or self.raw_rows < needed:
            raise MachineError(
                f"A log of {self.raw_rows} rows with {self.rows} rows in {self.sessions} sessions cannot be planned.",
                expected=f"{DAYS} sessions or more, 70 rows in each, and at least {needed} rows in all",
            )


@dataclass
class _Run:
    product: Product
    parts: list[int] = field(default_factory=list)  # seconds of each surviving session
    breaks: list[str] = field(default_factory=list)  # what lies between them: hold or gap


def plan_days(order: Order, products: Sequence[Product], warm_up: Product, seed: int) -> list[list[Phase]]:
    """Draw the phases of every day."""
    draw = np.random.default_rng([seed, 1])
    days = _draw_runs(order, products, warm_up, draw)
    _share_rows([run for day in days for run in day], order.rows + order.lost_rows, draw)
    planned, number = [], 0
    for day in days:
        phases = [Phase("idle", 0, Status.FINISHED, day[0].product.program)]
        for position, run in enumerate(day):
            phases += _run_phases(run, number, draw)
            number += 1
            following = day[position + 1] if position + 1 < len(day) else None
            phases += _between(run, following, draw)
        planned.append(phases)
    return _stretch_idle(_lose_seconds(planned, order.lost_rows, draw), order.raw_rows - order.duplicates, draw)


def _draw_runs(
    order: Order, products: Sequence[Product], warm_up: Product, draw: np.random.Generator
) -> list[list[_Run]]:
    """Which product runs when: a warm-up each morning, then batches; some runs break in two sessions."""
    share = np.full(DAYS, order.sessions // DAYS)
    share[: order.sessions % DAYS] += 1
    days: list[list[_Run]] = []
    product, waiting = products[0], list[Product]()
    for sessions in share.tolist():
        day = [_Run(warm_up, parts=[0])]
        left_in_batch = 0
        while (open_sessions := sessions - sum(len(run.parts) for run in day)) > 0:
            if left_in_batch == 0:
                waiting = waiting or [products[index] for index in draw.permutation(len(products))]
                product, left_in_batch = waiting.pop(), int(draw.integers(1, 4))
            left_in_batch -= 1
            broken = open_sessions >= 2 and draw.random() < 0.2
            day.append(_Run(product, [0, 0] if broken else [0], [str(draw.choice(("hold", "gap")))] if broken else []))
        days.append(day)
    return days


def _share_rows(runs: list[_Run], rows: int, draw: np.random.Generator) -> None:
    """Give each session its seconds: runs as long as their product takes, all together exactly `rows`."""
    sessions = sum(len(run.parts) for run in runs)
    mean = rows / sessions
    wanted = []
    for run in runs:
        passes = max(1, round(mean * len(run.parts) / run.product.seconds * draw.uniform(0.6, 1.4)))
        whole = min(passes * run.product.seconds, 3.0 * mean * len(run.parts))
        cut = draw.dirichlet([4.0] * len(run.parts))
        wanted += [max(whole * part, 1.0) for part in cut.tolist()]
    floor = SHORTEST_SESSION + 4
    spare = rows - floor * sessions
    weights = np.maximum(np.array(wanted) - floor, 1.0)
    shares = np.floor(weights / weights.sum() * spare).astype(int)
    shares[int(np.argmax(weights))] += spare - int(shares.sum())
    lengths = iter((shares + floor).tolist())
    for run in runs:
        run.parts = [next(lengths) for _ in run.parts]


def _run_phases(run: _Run, number: int, draw: np.random.Generator) -> list[Phase]:
    """The phases of one run; a break is an interruption by the operator or a stretch the log misses."""
    program = run.product.program
    gaps = [int(draw.integers(SPLITTING_GAP + 3, 25)) if kind == "gap" else 0 for kind in run.breaks]
    total = sum(run.parts) + sum(gaps)
    phases, offset = [], 0
    for position, seconds in enumerate(run.parts):
        phases.append(Phase("run", seconds, Status.RUNNING, program, number, run.product, total, offset))
        offset += seconds
        if position < len(gaps) and gaps[position]:
            lost = tuple(range(gaps[position]))
            phases.append(
                Phase("run", gaps[position], Status.RUNNING, program, number, run.product, total, offset, lost)
            )
            offset += gaps[position]
        elif position < len(gaps):
            status = Status.INTERRUPTED if draw.random() < 0.5 else Status.STOPPED
            held = int(draw.integers(12, 70))
            phases.append(Phase("hold", held, status, program, number, run.product, total, offset))
    return phases


def _between(run: _Run, following: _Run | None, draw: np.random.Generator) -> list[Phase]:
    """After a run: straight on with another program, a part change, or a changeover with jogging and a short trial."""
    done = Phase("idle", 0, Status.FINISHED, run.product.program, door_open=True)
    if following is None:
        return [done]
    if following.product.program == run.product.program:
        return [done]
    if draw.random() < 0.12:
        return []
    phases = [done]
    for _ in range(int(draw.integers(1, 4))):
        phases.append(Phase("jog", int(draw.integers(8, 45)), Status.RUNNING, JOG_PROGRAM))
        phases.append(Phase("idle", 0, Status.STOPPED, JOG_PROGRAM, door_open=bool(draw.random() < 0.6)))
    if draw.random() < 0.6:
        trial = int(draw.integers(12, SHORTEST_SESSION - 6))
        program = following.product.program
        phases.append(Phase("run", trial, Status.RUNNING, program, -1, following.product, trial))
        phases.append(Phase("idle", 0, Status.INTERRUPTED, program))
    return phases


def _lose_seconds(days: list[list[Phase]], count: int, draw: np.random.Generator) -> list[list[Phase]]:
    """Lose single seconds inside surviving sessions, never two close together nor at an end."""
    places = [
        (day, index)
        for day, phases in enumerate(days)
        for index, phase in enumerate(phases)
        if phase.kind == "run" and phase.run >= 0 and not phase.lost
    ]
    for day, index in (places[int(choice)] for choice in draw.choice(len(places), count, replace=count > len(places))):
        phase = days[day][index]
        free = [s for s in range(2, phase.seconds - 2) if all(abs(s - gone) > 2 for gone in phase.lost)]
        days[day][index] = replace(phase, lost=tuple(sorted((*phase.lost, int(draw.choice(free))))))
    return days


def _stretch_idle(days: list[list[Phase]], raw_rows: int, draw: np.random.Generator) -> list[list[Phase]]:
    """Stretch the idle phases until the whole log has its rows, and miss a few more seconds of some of them."""
    logged = sum(phase.seconds - len(phase.lost) for phases in days for phase in phases)
    idle = [(day, index) for day, phases in enumerate(days) for index, p in enumerate(phases) if p.kind == "idle"]
    shortest = SPLITTING_GAP + 5
    spare = raw_rows - logged - shortest * len(idle)
    if spare < 0:
        raise MachineError(
            f"{raw_rows} log rows leave no room for the idle times between runs.",
            expected=f"at least {logged + shortest * len(idle)} rows in all",
        )
    shares = draw.multinomial(spare, draw.dirichlet([1.5] * len(idle)))
    for (day, index), share in zip(idle, shares.tolist()):
        gone = int(draw.integers(2, 90)) if draw.random() < 0.1 else 0  # seconds the log misses on top
        seconds, lost = shortest + share + gone, tuple(range(3, 3 + gone))
        days[day][index] = replace(days[day][index], seconds=seconds, lost=lost)
    return days


@dataclass(frozen=True)
class Shop:
    """What the days of a machine are made of."""

    jobs: Mapping[str, Job]  # by program name
    products: tuple[Product, ...]
    warm_up: Product


def open_shop(machine: MachineParameters, programs: Collection[str] | None = None) -> Shop:
    """Prepare the bundled programs, or some of them, and the warm-up for a machine."""
    limits = motion_limits(machine)
    texts = {path.stem.upper(): path.read_text(encoding="utf-8") for path in bundled_programs().values()}
    chosen = {name: text for name, text in texts.items() if programs is None or name in programs}
    jobs = {name: _job(name, text, limits) for name, text in {**chosen, WARM_UP: _warm_up_text()}.items()}
    products = [Product(name, material_for(text).name, jobs[name].seconds) for name, text in chosen.items()]
    return Shop(jobs, tuple(products), Product(WARM_UP, "aluminium", jobs[WARM_UP].seconds))


@lru_cache(maxsize=32)  # a few machines; milling a part out of its stock takes longer than most logs of it
def _job(name: str, text: str, limits: MotionLimits) -> Job:
    job = prepare(parse_program(text, name), limits, tool_notes(text))
    for values in (*vars(job).values(), job.engagement.depth, job.engagement.width):
        if isinstance(values, np.ndarray):
            values.flags.writeable = False  # the next shop gets the same ones
    return job


def _warm_up_text() -> str:
    """Step the spindle up and stroke the axes between the steps, in the air."""
    x, y, z = (home - offset for home, offset in zip(Setup().home, Setup().work_offset))
    lines = ["G17 G90 G94", f"G0 X{x:.3f} Y{y:.3f} Z{z:.3f}"]
    for speed in _WARM_UP_SPEEDS:
        lines += [
            f"S{speed} M3",
            "G4 F15",
            f"G0 Z{z - 250:.3f}",
            f"G0 X{x + 300:.3f} Y{y - 300:.3f}",
            f"G0 X{x:.3f} Y{y:.3f}",
            f"G0 Z{z:.3f}",
        ]
    return "\n".join([*lines, "M5", "G4 F4", "M30"])
