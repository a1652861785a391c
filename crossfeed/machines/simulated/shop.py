"""The shop the simulated machines stand in: bundled NC programs as jobs, products, and the morning's warm-up."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from crossfeed.machines.simulated.jobs import Job, motion_limits, prepare
from crossfeed.machines.simulated.materials_and_tools import material_for, tool_notes
from crossfeed.machines.simulated.parameters import MachineParameters
from crossfeed.machines.simulated.production import Product
from crossfeed.programs.blocks import Setup
from crossfeed.programs.bundled import bundled_programs
from crossfeed.programs.limits import MotionLimits
from crossfeed.programs.parse import parse_program

WARM_UP = "SPINDLE_WARMUP"
_WARM_UP_SPEEDS = (3000, 6000, 9000, 12000, 15000, 18000)


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
