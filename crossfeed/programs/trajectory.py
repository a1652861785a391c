"""A planned program: where the axes are at any moment, and the commands at any rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from crossfeed.atomic import atomic_file
from crossfeed.errors import ProgramError
from crossfeed.programs.blocks import ProgramFinding
from crossfeed.programs.legs import LegKind, Legs
from crossfeed.programs.profile import SpeedSegments
from crossfeed.schema import Channel, conversion

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
