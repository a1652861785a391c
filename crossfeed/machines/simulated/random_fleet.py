"""A fleet: random machines at work, each with a log in a dialect of its own."""

from pathlib import Path

import numpy as np

from crossfeed.errors import MachineError
from crossfeed.machines.simulated.catalogue import random_machine
from crossfeed.machines.simulated.jobs import play_for
from crossfeed.machines.simulated.log_files import LogSummary
from crossfeed.machines.simulated.mapped_log import ControllerDialect, LoggedRun, write_mapped
from crossfeed.machines.simulated.materials_and_tools import material_named
from crossfeed.machines.simulated.parameters import MachineParameters
from crossfeed.machines.simulated.rollout import SimulatedMachine
from crossfeed.machines.simulated.shop import open_shop
from crossfeed.progress import progress
from crossfeed.schema import canonical

_RUNS = 5  # of each machine
_LARGEST = 10_000
_FIRST, _SHARED = 11, 8  # sensors of the first machine, and those that the others share with it
_PREFIXES = ("", "drive.", "CH1_", "mc/")
_OTHER_UNITS = {"kW": "W", "mm/min": "mm/s", "rpm": "deg/s"}


def simulate_fleet(out: Path, count: int, seed: int = 0) -> list[LogSummary]:
    """Write OUT/<machine>/log.csv and mapping.yaml for `count` random machines."""
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
        own = {*machine.logging.sensors, *common}
        wanted = shown[0] if shown else set(names)
        missing = [name for name in names if name in wanted and name not in own]
        short = (_SHARED if shown else _FIRST) - len(own & wanted)
        shown.append(own | set(missing[: max(0, short)]))
    return [
        machine.model_copy(
            update={"logging": machine.logging.model_copy(update={"sensors": tuple(n for n in names if n in own)})}
        )
        for machine, own in zip(machines, shown, strict=True)
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
        runs.append(LoggedRun(product.program, trace))
    units = {unit: other for unit, other in _OTHER_UNITS.items() if draw.random() < 0.5}
    return write_mapped(out, machine, runs, ControllerDialect(str(draw.choice(_PREFIXES)), units))
