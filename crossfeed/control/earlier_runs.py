"""Earlier runs of the same program in a machine's log: what each place brought when it was cut before.

A model reads commands; how deep the next layer lies is in none of them. A run of the same part knows. Single readings
scatter about the load of their second: the scatter is the nugget of a variogram, by how much neighbouring rows differ
beyond what their distance explains. T places, R rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from crossfeed.control.timeline import Timeline

_FEWEST = 8  # pairs of rows below which nothing is said about scatter
_MEDIAN = 0.4549  # of a squared standard normal number
_REAL = 2.5  # times the scatter from which on a reading that stands out is believed: an entry, a slot, a hard spot
_ALIKE = 0.1  # mean difference of the commands, as a part of the fastest feed, below which rows can be a run
_LONGER, _ROWS = 0.03, 2  # by which a run as written may be longer or shorter, and never less than these rows
_MOST = 4  # runs that are used, the latest first
_AT_ONCE = 1024
_OWN = 0.1  # what the difference from the place itself counts for beside that from the nearest one


@dataclass(frozen=True)
class Scatter:
    """The standard deviation of single readings, and the share of it in what neighbouring rows differ by."""

    spread: float = 0.0
    share: float = 0.0

    @classmethod
    def of(cls, load_T: np.ndarray, cutting_T: np.ndarray) -> "Scatter":
        """From the rows of one run whose neighbours are cuts as well; medians, so that entries do not count."""
        near, far = _variation(load_T, cutting_T, 1), _variation(load_T, cutting_T, 2)
        nugget = max(0.0, 2.0 * near - far)
        return cls(float(np.sqrt(nugget)), min(1.0, nugget / near)) if near > 0.0 else cls()

    @classmethod
    def of_runs(cls, loads: Iterable[np.ndarray], cutting_T: np.ndarray) -> "Scatter":
        """What single readings of some runs scatter by, in the mean; nothing where there is none."""
        scatters = [cls.of(load_T, cutting_T) for load_T in loads] or [cls()]
        spread, share = (float(np.mean([getattr(each, name) for each in scatters])) for name in ("spread", "share"))
        return cls(spread, share)


def smoothed(load_T: np.ndarray, cutting_T: np.ndarray, scatter: Scatter) -> np.ndarray:
    """The loads with as much of each reading's distance from its neighbourhood taken away as is scatter."""
    smooth_T = load_T.copy()
    off_T = (load_T[:-2] + load_T[1:-1] + load_T[2:]) / 3.0 - load_T[1:-1]
    chance_T = cutting_T[:-2] & cutting_T[1:-1] & cutting_T[2:] & (np.abs(off_T) <= _REAL * scatter.spread)
    smooth_T[1:-1] += np.where(chance_T, scatter.share * off_T, 0.0)
    return smooth_T


def _variation(load_T: np.ndarray, cutting_T: np.ndarray, apart: int) -> float:
    """Half the squared difference of rows of one cut that lie so far apart: the variogram, by its median."""
    both_T = np.ones(max(len(load_T) - apart, 0), dtype=bool)
    for shift in range(apart + 1):
        both_T &= cutting_T[shift : shift + len(both_T)]
    differences = (load_T[apart:] - load_T[: len(both_T)])[both_T]
    differences = differences[np.isfinite(differences)]
    return float(np.median(differences**2)) / (2.0 * _MEDIAN) if len(differences) >= _FEWEST else 0.0


@dataclass(frozen=True, eq=False)
class LoggedRows:
    """Consecutive rows of a machine's log, and the program that ran, where the log says so."""

    sensors_RC: np.ndarray
    commands_RA: np.ndarray
    program: str = ""

    def __len__(self) -> int:
        return len(self.sensors_RC)


def find_runs(timeline: Timeline, log: Sequence[LoggedRows]) -> list[np.ndarray]:
    """The latest runs of a program in a log, by its name and by what was commanded; runs under overrides are none.

    Of each run its sensors (T, C) at the places of the timeline.
    """
    runs = []
    for rows in reversed(log):
        if rows.program.casefold() == timeline.name.casefold() and len(rows) >= len(timeline):
            apart_R = _apart(timeline, rows.commands_RA)
            start = int(np.argmin(apart_R))
            if apart_R[start] < _ALIKE and _as_long(timeline, rows.commands_RA):
                runs.append(rows.sensors_RC[start : start + len(timeline)])
    return runs[:_MOST]


def _as_long(timeline: Timeline, commands_RA: np.ndarray) -> bool:
    """Whether the spindle turned for as long as the program as written has it: a turned knob shows there."""
    turned, wanted = (
        int((np.abs(part[:, timeline.spindle_column]) > 0.0).sum()) for part in (commands_RA, timeline.commands_TA)
    )
    return abs(turned - wanted) <= max(_ROWS, _LONGER * wanted)


def _apart(timeline: Timeline, commands_RA: np.ndarray) -> np.ndarray:
    """How far the rows from each start on are from what the program commands, as a part of it.

    A log may hold the mean of a second or its last moment, so a row may be like a place or like one beside it; rapids
    fill parts of seconds and count as no more than the fastest feed.
    """
    amount_TA = np.abs(timeline.commands_TA)
    feeds_TA = amount_TA[timeline.feed_share_T > 0.99] if (timeline.feed_share_T > 0.99).any() else amount_TA
    most_A = feeds_TA.max(axis=0)
    moved = most_A > 0.0
    wanted_TA, most_A = np.minimum(amount_TA[:, moved] / most_A[moved], 1.0), most_A[moved]
    log_RA = np.minimum(np.nan_to_num(np.abs(commands_RA[:, moved]) / most_A, nan=np.inf), 1.0)
    padded_TA = np.pad(wanted_TA, ((1, 1), (0, 0)), mode="edge")
    beside = [padded_TA[shift : shift + len(wanted_TA)] for shift in range(3)]
    windows = np.lib.stride_tricks.sliding_window_view(log_RA, len(timeline), axis=0).swapaxes(1, 2)
    apart = []
    for first in range(0, len(windows), _AT_ONCE):
        part = windows[first : first + _AT_ONCE]
        nearest = np.min([np.abs(part - each_TA) for each_TA in beside], axis=0)
        # The place itself decides between neighbouring starts.
        apart.append(nearest.mean(axis=(1, 2)) + _OWN * np.abs(part - wanted_TA).mean(axis=(1, 2)))
    return np.concatenate(apart)


def around(load_T: np.ndarray) -> np.ndarray:
    """The highest load at each place and its neighbours: a row may come a little early or late."""
    return np.asarray(np.maximum(load_T, neighbours(load_T)))


def neighbours(load_T: np.ndarray) -> np.ndarray:
    """The higher neighbour of each place."""
    padded = np.pad(load_T, 1, mode="edge")
    return np.asarray(np.maximum(padded[:-2], padded[2:]))
