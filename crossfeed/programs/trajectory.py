"""Speeds along the path of a program, where the axes are at any moment, and the commands at any rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from crossfeed.errors import ProgramError
from crossfeed.files import atomic_file
from crossfeed.programs.blocks import ProgramFinding
from crossfeed.programs.legs import LegKind, Legs
from crossfeed.programs.motion import MotionLimits
from crossfeed.schema import Channel, conversion


@dataclass(frozen=True)
class SpeedSegments:
    """Stretches of constant acceleration along a leg, in order of time; speeds in mm/s (deg/s while turning)."""

    leg: np.ndarray
    seconds: np.ndarray
    distance: np.ndarray  # path distance inside the leg at the start of the segment
    speed: np.ndarray
    acceleration: np.ndarray


def leg_limits(
    legs: Legs, limits: MotionLimits, rapid_factor: float, feed_factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The highest speed (mm/s) and acceleration (mm/s^2) along each leg that no axis objects to."""
    axis_speed = np.array(limits.rapid) / 60.0
    axis_acceleration = np.array(limits.acceleration)
    slope = np.abs(legs.unit)
    amplitude = np.sqrt(legs.across**2 + legs.along**2)
    around = np.divide(legs.radius * legs.sweep, legs.length, out=np.zeros(len(legs)), where=legs.is_arc)
    climb = np.divide(np.abs(legs.rise), legs.length[:, None], out=np.zeros_like(legs.rise), where=legs.is_arc[:, None])
    slope = np.where(legs.is_arc[:, None], amplitude * around[:, None] + climb, slope)
    turn = np.abs(legs.rotary)
    speed = np.minimum(_allowed(axis_speed, slope), _allowed(np.array(limits.rotary_speed) / 60.0, turn))
    acceleration = np.minimum(_allowed(axis_acceleration, slope), _allowed(np.array(limits.rotary_acceleration), turn))
    # On an arc the push along the path and the push towards the center share what the axes can give.
    acceleration = np.where(legs.is_arc, acceleration / np.sqrt(2.0), acceleration)
    inward = _allowed(axis_acceleration, amplitude) / np.sqrt(2.0)
    curvature = np.divide(legs.radius * legs.sweep**2, legs.length**2, out=np.zeros(len(legs)), where=legs.is_arc)
    with np.errstate(divide="ignore"):
        speed = np.where(legs.is_arc, np.minimum(speed, np.sqrt(inward / curvature)), speed)
    is_rapid = ~np.isfinite(legs.feed)
    speed = np.where(is_rapid, speed * min(rapid_factor, 1.0), np.minimum(speed, legs.feed / 60.0 * feed_factor))
    return speed, acceleration


def _allowed(limit: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The path quantity at which the first axis reaches its limit; infinite where no axis takes part."""
    ratio = np.full(share.shape, np.inf)
    np.divide(np.broadcast_to(limit, share.shape), share, out=ratio, where=share > 1e-12)
    return np.asarray(ratio.min(axis=1))


def corner_speeds(legs: Legs, speed: np.ndarray, limits: MotionLimits) -> np.ndarray:
    """The highest speed at which each corner may be taken, N + 1 values; 0 at the ends and wherever the axes must stop.

    A corner is rounded by the circle that stays within the corner tolerance and uses at most half of either leg (legs
    shorter than the tolerance may be cut across), and is passed no faster than the weakest axis can be pushed around
    that circle.
    """
    count = len(legs)
    corners = np.zeros(count + 1)
    if count < 2:
        return corners
    first, second = np.arange(count - 1), np.arange(1, count)
    exit_direction = legs.direction(first, legs.length[first])
    entry_direction = legs.direction(second, np.zeros(count - 1))
    cosine = np.clip(np.einsum("ij,ij->i", exit_direction, entry_direction), -1.0, 1.0)
    half = np.arccos(cosine) / 2.0
    with np.errstate(divide="ignore", invalid="ignore"):
        by_tolerance = limits.corner_tolerance * np.cos(half) / (1.0 - np.cos(half))
        room = np.maximum(np.minimum(legs.length[first], legs.length[second]) / 2.0, limits.corner_tolerance)
        by_length = room / np.tan(half)
        rounding = np.minimum(by_tolerance, by_length)
        allowed = np.sqrt(min(limits.acceleration) * np.maximum(rounding, 0.0))
    allowed = np.where(half < 1e-9, np.inf, allowed)
    allowed = np.minimum(allowed, np.minimum(speed[first], speed[second]))
    moving = (legs.kind == LegKind.RAPID) | (legs.kind == LegKind.FEED)
    turning = np.any(legs.rotary != 0.0, axis=1)
    through = moving[first] & moving[second] & ~legs.exact_stop[first] & (turning[first] == turning[second])
    corners[1:-1] = np.where(through, allowed, 0.0)
    return corners


def look_ahead(corners: np.ndarray, length: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
    """Lower the corner speeds until each leg can be braked and sped up within its length."""
    reach = (2.0 * np.where(length > 0.0, acceleration, 0.0) * length).tolist()
    squares = (corners**2).tolist()
    for index in range(len(reach) - 1, -1, -1):
        squares[index] = min(squares[index], squares[index + 1] + reach[index])
    for index in range(len(reach)):
        squares[index + 1] = min(squares[index + 1], squares[index] + reach[index])
    return np.asarray(np.sqrt(squares))


def trapezoids(
    legs: Legs, speed: np.ndarray, acceleration: np.ndarray, corners: np.ndarray, seconds: np.ndarray
) -> SpeedSegments:
    """Speed up, hold, brake: up to three segments per moving leg, one per standing leg."""
    count = len(legs)
    standing = legs.kind == LegKind.STANDING
    entry, leave = corners[:-1], corners[1:]
    safe_acceleration = np.where(standing, 1.0, acceleration)
    peak = np.sqrt((2.0 * safe_acceleration * legs.length + entry**2 + leave**2) / 2.0)
    peak = np.maximum(np.minimum(peak, speed), np.maximum(entry, leave))
    gain, loss = (peak - entry) / safe_acceleration, (peak - leave) / safe_acceleration
    up, down = (entry + peak) / 2.0 * gain, (leave + peak) / 2.0 * loss
    with np.errstate(divide="ignore", invalid="ignore"):
        hold = np.where(standing, seconds, np.maximum(legs.length - up - down, 0.0) / peak)
    zero = np.zeros(count)
    push = np.where(standing, 0.0, acceleration)
    time = np.stack([np.where(standing, 0.0, gain), hold, np.where(standing, 0.0, loss)], axis=1).ravel()
    kept = time > 0.0
    return SpeedSegments(
        leg=np.repeat(np.arange(count), 3)[kept],
        seconds=time[kept],
        distance=np.stack([zero, up, np.maximum(legs.length - down, 0.0)], axis=1).ravel()[kept],
        speed=np.stack([entry, np.where(standing, 0.0, peak), peak], axis=1).ravel()[kept],
        acceleration=np.stack([push, zero, -push], axis=1).ravel()[kept],
    )


PATH = "feed_path"  # along the path, whatever the direction
COMMAND_UNITS = {"spindle_speed": "rpm", "feed_x": "mm/min", "feed_y": "mm/min", "feed_z": "mm/min", PATH: "mm/min"}
CSV_HEADER = "time,spindle_speed,feed_x,feed_y,feed_z,x,y,z,cutting,rapid,tool,line"
_MOST_BINS = 5e7


@dataclass(frozen=True)
class CommandTrace:
    """Commands in bins (time - 1/rate, time]; all arrays have one entry per bin."""

    rate: float
    time: np.ndarray  # s, end of the bin
    spindle_speed: np.ndarray  # rpm, negative for M4
    feed: np.ndarray  # (n, 3) mm/min, signed
    path_feed: np.ndarray  # mm/min along the path
    position: np.ndarray  # (n, 3) mm from the work zero, at the end of the bin
    cutting: np.ndarray  # a feed move with the spindle on
    rapid: np.ndarray
    feeding: np.ndarray  # a feed move, with the spindle on or off
    per_revolution: np.ndarray  # a feed move whose feed follows the spindle
    tool: np.ndarray  # index into Trajectory.tools
    line: np.ndarray  # line of the NC text

    def __len__(self) -> int:
        return len(self.time)

    def commanded(self, channels: Sequence[Channel]) -> np.ndarray:
        """The commands (n, A) of these channels in their units; where the path stands for all axes, the others rest."""
        values = dict(zip(COMMAND_UNITS, (self.spindle_speed, *self.feed.T, self.path_feed), strict=True))
        names = [channel.name for channel in channels]
        if PATH in names and "feed_x" not in names:
            values |= {axis: np.zeros(len(self)) for axis in ("feed_y", "feed_z")}
        units = [conversion(COMMAND_UNITS[channel.name], channel.unit) for channel in channels]
        return np.stack([values[name] * unit.scale + unit.offset for name, unit in zip(names, units)], axis=1)


def write_commands(trace: CommandTrace, tools: tuple[str, ...], path: Path | str) -> None:
    """Write a trace; times in s, speeds in rpm, feeds in mm/min, positions in mm."""
    numbers = (trace.time, trace.spindle_speed, *trace.feed.T, *trace.position.T)
    rows = zip(*(np.round(values, 6).tolist() for values in numbers))
    marks = zip(trace.cutting.astype(int), trace.rapid.astype(int), trace.tool, trace.line)
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(CSV_HEADER + "\n")
        for row, (cutting, rapid, tool, line) in zip(rows, marks):
            values = ",".join(f"{value + 0.0:.10g}" for value in row)
            file.write(f'{values},{cutting},{rapid},"{tools[tool]}",{line}\n')


@dataclass(frozen=True)
class Trajectory:
    """The motion of a whole program in time."""

    name: str
    legs: Legs
    segments: SpeedSegments
    spindle: np.ndarray  # rpm during each segment
    remarks: tuple[ProgramFinding, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        """Tool names in order of first use; '' is an empty spindle."""
        return self.legs.tools

    @cached_property
    def _edges(self) -> np.ndarray:
        return np.concatenate([[0.0], np.cumsum(self.segments.seconds)])

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return float(self._edges[-1])

    @cached_property
    def cutting_time(self) -> float:
        """Seconds of feed moves with the spindle on."""
        return float(self.segments.seconds[self._cutting].sum())

    @cached_property
    def rapid_time(self) -> float:
        """Seconds of rapid moves."""
        return float(self.segments.seconds[self.legs.kind[self.segments.leg] == LegKind.RAPID].sum())

    @cached_property
    def _cutting(self) -> np.ndarray:
        return np.asarray((self.legs.kind[self.segments.leg] == LegKind.FEED) & (self.spindle != 0.0))

    def sample(self, rate_hz: float, how: Literal["instant", "mean"] = "instant") -> CommandTrace:
        """Commands at a rate: 'instant' at the end of each bin, 'mean' the exact average over it.

        Mean feeds are displacement over time, so that adding them up returns the path at any rate.
        """
        if not (np.isfinite(rate_hz) and rate_hz > 0):
            raise ProgramError(f"Sampling at {rate_hz} Hz.", expected="a rate above zero")
        if how not in ("instant", "mean"):
            raise ProgramError(f"Sampling '{how}'.", expected="'instant' or 'mean'")
        if self.duration * rate_hz > _MOST_BINS:
            raise ProgramError(
                f"Sampling {self.duration:.0f} s at {rate_hz:g} Hz would make {self.duration * rate_hz:.2g} rows.",
                expected=f"at most {_MOST_BINS:.2g} rows",
                remedy="Choose a lower rate.",
            )
        count = max(1, int(np.ceil(self.duration * rate_hz - 1e-9)))
        edges = np.arange(count + 1) / rate_hz
        segment, inside = self._locate(edges)
        leg, distance = self._along(segment, inside)
        position = self.legs.position(leg, distance)
        if how == "mean":
            feeds = np.diff(position, axis=0) * (rate_hz * 60.0)
            path_feed = np.diff(self._path_before[leg] + distance) * (rate_hz * 60.0)
            turned = self._turned[segment] + self.spindle[segment] * inside
            spindle = np.diff(turned) * rate_hz
        else:
            speed = self.segments.speed[segment] + self.segments.acceleration[segment] * inside
            over = edges > self.duration
            along = np.where(over, 0.0, speed * 60.0)
            feeds, path_feed = (self.legs.direction(leg, distance) * along[:, None])[1:], along[1:]
            spindle = np.where(over, 0.0, self.spindle[segment])[1:]
        leg, segment = leg[1:], segment[1:]
        return CommandTrace(
            rate=rate_hz,
            time=edges[1:],
            spindle_speed=spindle,
            feed=feeds,
            path_feed=path_feed,
            position=position[1:],
            cutting=self._cutting[segment],
            rapid=self.legs.kind[leg] == LegKind.RAPID,
            feeding=self.legs.kind[leg] == LegKind.FEED,
            per_revolution=self.legs.per_revolution[leg],
            tool=self.legs.tool[leg],
            line=self.legs.line[leg],
        )

    @cached_property
    def _path_before(self) -> np.ndarray:
        """mm of path before each leg."""
        return np.concatenate([[0.0], np.cumsum(self.legs.length)[:-1]])

    @cached_property
    def _turned(self) -> np.ndarray:
        """rpm x s before each segment."""
        return np.concatenate([[0.0], np.cumsum(self.spindle * self.segments.seconds)[:-1]])

    def _locate(self, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The segment that is running just before each moment, and the seconds since it began."""
        segment = np.clip(np.searchsorted(self._edges, moments, side="left") - 1, 0, len(self.segments.leg) - 1)
        inside = np.minimum(moments - self._edges[segment], self.segments.seconds[segment])
        return segment, np.maximum(inside, 0.0)

    def _along(self, segment: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The leg and the path distance inside it."""
        leg = self.segments.leg[segment]
        gone = self.segments.speed[segment] * inside + self.segments.acceleration[segment] * inside**2 / 2.0
        return leg, np.clip(self.segments.distance[segment] + gone, 0.0, self.legs.length[leg])
