"""What controllers show: which sensors, how smooth, how late, in which steps, with which noise, offset and gaps."""

import math
from dataclasses import dataclass

from crossfeed.configuration import CheckedForm
from crossfeed.sim.factory.draw import FACTS, FleetMachine
from crossfeed.sim.factory.motors import (
    AXES,
    OTHERS,
    Dice,
    Range,
    chance,
    fleet_schema,
    log_uniform,
    pick,
    pick_weighted,
    uniform,
)
from crossfeed.sim.factory.signals import LoadOf, rated

FEWEST = 4  # sensors
HIGHEST_LOAD = 200.0  # %


class ControllerFamily(CheckedForm):
    """A family of controllers, as `fleet.yaml` lists them."""

    bench: float
    turning: float
    usual: float
    drives: dict[str, float] = {}
    sensors: dict[str, float] = {}
    all: float = 0.0
    noise: Range = (1e-4, 2e-2)
    grain: Range = (1e-3, 8e-2)

    def shows(self) -> dict[str, float]:
        """How often which sensor is shown."""
        if self.all:
            return {sensor.name: self.all for sensor in fleet_schema().sensors if sensor.name not in OTHERS}
        often = {f"{drive}_{detail}": share for drive in ("spindle", *AXES) for detail, share in self.drives.items()}
        return often | self.sensors


CONTROLLERS = {name: ControllerFamily(**values) for name, values in FACTS["controllers"].items()}


@dataclass(frozen=True, slots=True)
class Dial:
    """How one sensor is shown; noise, offset and step are in the unit shown."""

    factor: float = 1.0  # 100 over the rated value where a current is shown in per cent
    offset: float = 0.0
    noise: float = 0.0
    grain: float = 0.0  # noise in proportion to the value
    step: float = 0.0  # resolution
    digits: int = 0  # significant ones; 0 = all
    floor: float = 0.0  # smaller values are shown as zero
    band: float = 0.0  # a new value is told only when it is so far from the last one
    unsigned: bool = False
    highest: float = math.inf
    delay: int = 0  # rows


@dataclass(frozen=True, slots=True)
class Habits:
    """A controller's way of telling."""

    family: str
    dials: dict[str, Dial]
    others: dict[str, tuple[str, float]]  # unnamed channel: the sensor it repeats, and the factor
    hidden: tuple[str, ...]  # sensors that are shown without a name only
    smoothing: float  # s
    polls: int  # looks at a value in each row, of which the mean is told; 0 = all the time
    load_of: LoadOf
    shaft_power: bool
    measured_commands: bool  # actual speeds and feeds stand where set-points belong
    unsigned_feeds: bool
    command_step: float  # mm/min; rpm are whole
    gaps: float  # drop-outs of sensors per hour
    only_running: bool  # the log stops between programs


def draw_habits(machine: FleetMachine, draw: Dice) -> Habits:
    """A controller for a machine."""
    kind = machine.kind.name
    column = "bench" if kind == "bench" else "turning" if kind in ("lathe", "mill_turn") else "usual"
    family = pick_weighted(draw, {name: getattr(controller, column) for name, controller in CONTROLLERS.items()})
    names = _shown(machine, family, draw)
    whole = family == "mtconnect" or (family == "percent" and chance(draw, 0.5))
    measured = chance(draw, {"mtconnect": 0.8, "percent": 0.4}.get(family, 0.15))
    delay = pick_weighted(draw, {0: 0.7, 1: 0.2, 2: 0.1})
    quality = _Quality(
        noise=log_uniform(draw, *CONTROLLERS[family].noise),
        grain=0.0 if chance(draw, 0.3) else log_uniform(draw, *CONTROLLERS[family].grain),
        band=chance(draw, {"mtconnect": 0.6, "percent": 0.25}.get(family, 0.05)),
        whole=whole,
        digits=3 if family == "testbed" and chance(draw, 0.6) else 0,
        percent_current=chance(draw, 0.35 if family == "testbed" else 0.12),
        unsigned=chance(draw, 0.12),
        delay=delay,
        floor=0.0 if chance(draw, 0.6) else log_uniform(draw, 1e-3, 3e-2),
    )
    full_scale = {name: rated(machine, name) for name in names}
    others = _draw_others(full_scale, draw)
    hidden = {source for source, _ in others.values() if chance(draw, 0.5)}
    if not any(name.startswith("spindle_") for name in names if name not in hidden):
        hidden = set()
    return Habits(
        family=family,
        dials={name: _draw_dial(name, full, quality, draw) for name, full in full_scale.items()},
        others=others,
        hidden=tuple(sorted(hidden)),
        smoothing=0.0 if chance(draw, 0.4) else log_uniform(draw, 0.02, 3.0 if whole else 1.0),
        polls=pick_weighted(draw, {0: 0.35, 1: 0.45, 2: 0.05, 5: 0.15})
        if family != "mtconnect"
        else pick(draw, (1, 2, 5)),
        load_of=pick(draw, ("torque", "current", "power")),
        shaft_power=chance(draw, 0.3),
        measured_commands=measured,
        unsigned_feeds=chance(draw, 0.85 if family == "mtconnect" else 0.08),
        command_step=pick(draw, (0.0, 0.01, 0.1, 1.0)),
        gaps=0.0 if chance(draw, 0.6) else log_uniform(draw, 0.5, 60.0),
        only_running=chance(draw, 0.25),
    )


@dataclass(frozen=True, slots=True)
class _Quality:
    """What the dials of one controller have in common."""

    noise: float  # of the rated value
    grain: float
    band: bool
    whole: bool
    digits: int
    percent_current: bool
    unsigned: bool
    delay: int
    floor: float


def _shown(machine: FleetMachine, family: str, draw: Dice) -> list[str]:
    """At least four sensors, at least one of the spindle, none of an axis that is not there."""
    often = {
        name: share
        for name, share in CONTROLLERS[family].shows().items()
        if not (machine.kind.turning and name.startswith("y_"))
    }
    blind = pick(draw, AXES) if family == "testbed" and chance(draw, 0.4) else ""
    shown = {
        name for name, share in often.items() if chance(draw, share) and not (blind and name.startswith(blind + "_"))
    }
    spindle = [name for name in often if name.startswith("spindle_")]
    if not shown & set(spindle):
        shown.add(pick(draw, spindle))
    for name in draw.permutation(sorted(often)).tolist():
        if len(shown) >= FEWEST:
            break
        shown.add(str(name))
    return [name for name in fleet_schema().sensor_names if name in shown]


def _draw_dial(name: str, rated: float, quality: _Quality, draw: Dice) -> Dial:
    """How one sensor of a controller is shown."""
    detail = name.partition("_")[2]
    if detail.endswith("temp") or name == "ambient_temp":
        step = 1.0 if quality.whole else pick(draw, (1.0, 0.5, 0.1, 0.1, 0.1, 0.01))
        band = 0.6 * step if quality.band and chance(draw, 0.5) else 0.0
        return Dial(offset=uniform(draw, -2, 2), noise=log_uniform(draw, 0.01, 0.08), step=step, band=band)
    factor = 100 / rated if detail == "current" and quality.percent_current else 1.0
    full = rated * factor
    standing = 0.0 if chance(draw, 0.6) else full * float(draw.normal()) * 0.01
    electric = detail in ("current", "torque", "power", "output_current", "load")
    if detail == "load":
        step = 1.0 if quality.whole or chance(draw, 0.5) else pick(draw, (0.1, 0.01))
        return Dial(
            offset=abs(standing), noise=quality.noise * 30, grain=quality.grain, step=step,
            highest=pick(draw, (150.0, HIGHEST_LOAD, HIGHEST_LOAD)), unsigned=True, delay=quality.delay,
            band=log_uniform(draw, 0.5, 4.0) if quality.band else 0.0,
        )  # fmt: skip
    noise = full * quality.noise * (log_uniform(draw, 0.3, 3.0) if electric else log_uniform(draw, 0.02, 0.3))
    step = 10.0 ** round(math.log10(full * log_uniform(draw, 1e-5, 5e-3)))
    return Dial(
        factor=factor,
        offset=standing if electric else 0.0,
        noise=noise,
        grain=quality.grain * (1.0 if electric else 0.05),
        step=0.0 if quality.digits else step,
        digits=quality.digits,
        floor=full * quality.floor if electric else 0.0,
        band=full * log_uniform(draw, 2e-3, 3e-2) if quality.band else 0.0,
        unsigned=detail in ("output_current", "output_voltage", "dc_voltage", "mod_depth")
        or (detail in ("current", "torque") and quality.unsigned),
        delay=quality.delay if electric else 0,
    )


def _draw_others(full_scale: dict[str, float], draw: Dice) -> dict[str, tuple[str, float]]:
    """Unnamed channels: some sensors are shown once more, in a unit nobody knows, or only there."""
    others: dict[str, tuple[str, float]] = {}
    for name in OTHERS:
        if not chance(draw, 0.3):
            continue
        taken = {source for source, _ in others.values()}
        free = [source for source in full_scale if source not in taken]
        if not free:
            break
        source = pick(draw, free)
        others[name] = (source, log_uniform(draw, 0.01, 100.0) / full_scale[source] * pick(draw, (1, 1, 1, -1)))
    return others
