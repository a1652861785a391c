"""What lies ahead of the machine if its program goes on as written: sampled loads at the next places.

The model says what every place brings as written; what a plan makes of it is the law of cutting, which has two numbers
that come from logs. A spindle load is what it takes to turn in the
air, which depends on the speed, plus the cut, which grows with the chip load to a power below one (Kienzle: the thicker
the chip, the less force for each part of it). Forecasters learn little of this from logs in which the feed hardly ever
changes at the same place, so it is said here and checked there.

    load' = idle(s n) + cut (f/s)^p          torque and current
    load' = idle(s n) + cut (f/s)^p s        power, with feed factor f and spindle factor s

S samples, T places.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.special import stdtr, stdtrit

from crossfeed.control.timeline import Timeline
from crossfeed.model.world_model import WorldModel
from crossfeed.scenarios.measures import power_sensors, sample_quantiles
from crossfeed.scenarios.plan import PlannedCommands
from crossfeed.scenarios.rollout import PERSISTENCE, Rollout, standard_noise
from crossfeed.schema import Channel, Schema

EXPONENT = 0.78  # of the chip load; 1 - m of Kienzle lies between 0.7 and 0.85 for metals
SPREAD = 0.06  # how sure that is, as a standard deviation
_QUANTITIES = ("torque", "current", "power", "force", "load")
_STEADY = 3  # rows at one speed before the spindle has settled
_QUIET = 0.01  # quantile of the loads at a speed that is taken for a cut in the air; programs hold few of those
_SMALLEST = 200.0  # rpm apart
_SURELY_IDLE = 0.5  # of the idle load; quiet rows of a log may have been light cuts
SAMPLES = 32
CAUTIOUS = 0.95  # the quantile of a forecast from which its margin is counted


@dataclass(frozen=True)
class CuttingLaw:
    """Idle loads of a machine as lines over the speed, and how loads grow with the chip."""

    idle: dict[str, tuple[float, float]] = field(default_factory=dict)  # sensor: at rest, and for every rpm
    exponent: float = EXPONENT
    spread: float = SPREAD

    @classmethod
    def from_logs(cls, schema: Schema, sensors_RC: np.ndarray, commands_RA: np.ndarray) -> "CuttingLaw":
        """Idle loads from the quiet rows of a machine's own log; sensors without any count as having none."""
        speed_R = np.abs(commands_RA[:, schema.command_names.index("spindle_speed")])
        steady = speed_R > 0.0
        for back in range(1, _STEADY + 1):
            steady[back:] &= np.abs(speed_R[back:] - speed_R[:-back]) < 1.0
            steady[:back] = False
        idle = {}
        for column, channel in enumerate(schema.sensors):
            if channel.quantity in _QUANTITIES and channel.name.startswith("spindle"):
                points = _quiet_points(speed_R[steady], np.abs(sensors_RC[steady, column]))
                if len(points):
                    idle[channel.name] = _line(points)
        return cls(idle)

    def idle_load(self, sensor: str, speed_T: np.ndarray) -> np.ndarray:
        """What it takes to turn in the air."""
        at_rest, per_turn = self.idle.get(sensor, (0.0, 0.0))
        return np.asarray(np.where(speed_T > 0.0, at_rest + per_turn * speed_T, 0.0))

    def expected(
        self, sensor: Channel, load_xT: np.ndarray, speed_T: np.ndarray, feed_xT: np.ndarray, spindle_xT: np.ndarray,
        exponent: float | np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """The load to expect at places whose load as written is known."""
        if sensor.quantity not in _QUANTITIES:
            return np.broadcast_to(load_xT, np.broadcast_shapes(load_xT.shape, feed_xT.shape))
        power = self.exponent if exponent is None else exponent
        if not sensor.name.startswith("spindle"):
            return np.asarray(load_xT * np.where(feed_xT > 1.0, feed_xT**power, 1.0))
        idle_T = self.idle_load(sensor.name, speed_T)
        quiet_T = np.minimum(idle_T, np.maximum(load_xT, 0.0))
        cut_xT = load_xT - quiet_T
        slower = self.idle_load(sensor.name, speed_T * spindle_xT) / np.maximum(idle_T, 1e-9)
        grown = (feed_xT / spindle_xT) ** power * (spindle_xT if sensor.quantity == "power" else 1.0)
        return np.asarray(quiet_T * np.where(idle_T > 0.0, slower, 1.0) + cut_xT * grown)

    def bound(
        self, sensor: Channel, load_xT: np.ndarray, speed_T: np.ndarray, feed_xT: np.ndarray, spindle_xT: np.ndarray
    ) -> np.ndarray:
        """The most that the load can become: nearly all of it is cut where it grows, and grows with the chip itself."""
        sure = self.expected(sensor, load_xT, speed_T, feed_xT, spindle_xT)
        if sensor.quantity not in _QUANTITIES:
            return sure
        spindle = sensor.name.startswith("spindle")
        chip = feed_xT / spindle_xT if spindle else feed_xT
        idle_T = _SURELY_IDLE * self.idle_load(sensor.name, speed_T)
        quiet_T = np.minimum(idle_T, np.maximum(load_xT, 0.0)) if spindle else 0.0
        grown = quiet_T + (load_xT - quiet_T) * chip
        return np.asarray(np.where(chip > 1.0, np.maximum(sure, grown), sure))


def _quiet_points(speed_R: np.ndarray, load_R: np.ndarray) -> np.ndarray:
    """Speed, quiet load and number of rows for every speed that was turned at for a while."""
    seen = np.isfinite(load_R)
    speed_R, load_R = speed_R[seen], load_R[seen]
    points = []
    for level in np.unique(np.round(speed_R / _SMALLEST)):
        near = np.round(speed_R / _SMALLEST) == level
        if near.sum() >= 5:
            points.append((speed_R[near].mean(), np.quantile(load_R[near], _QUIET), near.sum()))
    return np.array(points)


def _line(points: np.ndarray) -> tuple[float, float]:
    """A line through the quiet points that never falls with the speed and never starts below zero."""
    speed, load, weight = points.T
    if len(points) == 1:
        return 0.0, float(load[0] / speed[0])
    weight = np.sqrt(weight)
    centre, height = np.average(speed, weights=weight), np.average(load, weights=weight)
    slope = float((weight * (speed - centre) * (load - height)).sum() / (weight * (speed - centre) ** 2).sum())
    slope = min(max(slope, 0.0), float(height / centre))
    return float(height - slope * centre), slope


@dataclass(frozen=True)
class StudentTail:
    """Scores lie about a middle with a spread; `freedom` is the number of rows that vouch for both.

    By Student's law few rows make wide tails. (`scipy.stats.t` says the same, fifty times slower.)
    """

    middle: float
    spread: float
    freedom: float

    def above(self, score: np.ndarray) -> np.ndarray:
        """The chance that the next score is higher."""
        return np.asarray(stdtr(self.freedom, (self.middle - score) / self.spread))

    def within(self, risk: float) -> float:
        """What the next score stays below with probability 1 - risk."""
        return self.middle + float(stdtrit(self.freedom, 1.0 - risk)) * self.spread


@dataclass(frozen=True, eq=False)
class KnownLoad:
    """A load as written with the tail of what comes above it, in units that grow with the load; all of them (T,)."""

    load_T: np.ndarray
    unit_T: np.ndarray  # what a score of one is worth
    tail: StudentTail
    known_T: np.ndarray  # places of which the tail speaks


@dataclass(frozen=True, eq=False)
class LoadForecast:
    """The loads of the places to come as written; `doubt_T` is how far members disagree, 1 where that is usual.

    `middle` and `high` (T,) hold what a limited load passes with even chance and what it hardly ever passes. `tails`
    say how surely at places that are known; elsewhere whatever `high` lets pass a limit is taken to pass it.
    """

    timeline: Timeline
    paths: Mapping[str, np.ndarray]  # (S, T) by sensor, in the units of the schema
    doubt_T: np.ndarray
    middle: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]
    tails: Mapping[str, KnownLoad] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.timeline)

    @classmethod
    def sampled(cls, timeline: Timeline, paths: Mapping[str, np.ndarray]) -> "LoadForecast":
        """Loads of which nothing but samples is known."""
        middle = {name: np.median(path_ST, axis=0) for name, path_ST in paths.items()}
        high = {name: sample_quantiles(path_ST, (CAUTIOUS,))[0] for name, path_ST in paths.items()}
        return cls(timeline, paths, np.zeros(len(timeline)), middle, high)

    def section(self, first: int, last: int) -> "LoadForecast":
        """Some of its places."""
        places = slice(first, min(last, len(self)))
        timeline = replace(self.timeline.rows(places.start, places.stop), whole=self.timeline.whole)
        paths = {name: path_ST[:, places] for name, path_ST in self.paths.items()}
        middle, high = ({name: load_T[places] for name, load_T in part.items()} for part in (self.middle, self.high))
        tails = {
            name: KnownLoad(tail.load_T[places], tail.unit_T[places], tail.tail, tail.known_T[places])
            for name, tail in self.tails.items()
        }
        return LoadForecast(timeline, paths, self.doubt_T[places], middle, high, tails)


def forecast_program(
    rollout: Rollout, timeline: Timeline, limited: Sequence[str], samples: int = SAMPLES, seed: int = 0
) -> LoadForecast:
    """Sampled loads of a whole program as written, however long it is."""
    schema = rollout.model.schema
    names = tuple(dict.fromkeys([*limited, *power_sensors(schema, rollout.present)]))
    noise_STC = standard_noise(samples, len(timeline), len(schema.sensors), seed, PERSISTENCE)
    plan = PlannedCommands(timeline.name, "program", None, timeline.commands_TA)
    paths_STC = rollout.sample(plan, noise_STC)
    return LoadForecast.sampled(timeline, {name: paths_STC[..., schema.sensor_names.index(name)] for name in names})


def physical(model: WorldModel, name: str, values: torch.Tensor) -> np.ndarray:
    """Values of one sensor from z-space in the unit of the schema."""
    column, normaliser = model.schema.sensor_names.index(name), model.normaliser
    scale, location = normaliser.sensor_scale[column], normaliser.sensor_location[column]
    return np.asarray(values.double().cpu().numpy() * scale + location)
