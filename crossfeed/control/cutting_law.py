"""What a load becomes where the tool goes faster: a law of cutting with two numbers that come from logs.

A spindle load is what it takes to turn in the air, which depends on the speed, plus the cut, which grows with the chip
load to a power below one (Kienzle: the thicker the chip, the less force for each part of it). Forecasters learn little
of this from logs in which the feed hardly ever changes at the same place, so it is said here and checked there.

    load' = idle(s n) + cut (f/s)^p          torque and current
    load' = idle(s n) + cut (f/s)^p s        power, with feed factor f and spindle factor s
"""

from dataclasses import dataclass, field

import numpy as np

from crossfeed.schema import Channel, Schema

EXPONENT = 0.78  # of the chip load; 1 - m of Kienzle lies between 0.7 and 0.85 for metals
SPREAD = 0.06  # how sure that is, as a standard deviation
_QUANTITIES = ("torque", "current", "power", "force", "load")
_STEADY = 3  # rows at one speed before the spindle has settled
_QUIET = 0.01  # quantile of the loads at a speed that is taken for a cut in the air; programs hold few of those
_SMALLEST = 200.0  # rpm apart
_SURELY_IDLE = 0.5  # of the idle load; quiet rows of a log may have been light cuts


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
        quiet_T = (
            np.minimum(_SURELY_IDLE * self.idle_load(sensor.name, speed_T), np.maximum(load_xT, 0.0))
            if spindle
            else 0.0
        )
        grown = quiet_T + (load_xT - quiet_T) * chip
        return np.asarray(np.where(chip > 1.0, np.maximum(sure, grown), sure))


def _quiet_points(speed_R: np.ndarray, load_R: np.ndarray) -> np.ndarray:
    """Speed, quiet load and number of rows for every speed that was turned at for a while."""
    seen = np.isfinite(load_R)
    speed_R, load_R = speed_R[seen], load_R[seen]
    points = []
    for level in np.unique(np.round(speed_R / _SMALLEST)):
        own = np.round(speed_R / _SMALLEST) == level
        if own.sum() >= 5:
            points.append((speed_R[own].mean(), np.quantile(load_R[own], _QUIET), own.sum()))
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
