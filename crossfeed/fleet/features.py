"""What a window of a log looks like, free of its units: how a simulated log can be told from a real one."""

from typing import NamedTuple

import numpy as np

from crossfeed.errors import TableError
from crossfeed.ingest.table import Table, row_numbers
from crossfeed.machines.simulated.noise import Floats

LENGTH = 64  # rows of a window
FEATURES = (
    "standing rows",  # all commands zero
    "unchanged command",  # rows whose commands are those of the row before
    "moving axes",  # mean number of axes with a feed
    "spindle on",
    "unchanged",  # rows whose value is that of the row before
    "zero",
    "distinct values",
    "memory",  # correlation with the row before
    "memory of three rows",
    "jump",  # usual step from row to row over the spread of the whole log
    "largest jump",
    "spread",  # of the window over the spread of the whole log
    "level",  # of the window over the spread of the whole log
    "negative",
    "told by speed",  # share of the window's variance that a line in each command explains
    "told by feeds",
    "unrest while standing",  # steps in rows with commands that do not change, over those of all rows
)


class WindowFeatures(NamedTuple):
    """One window of one sensor, with a number for each of FEATURES."""

    features: list[float]
    detail: str  # what is measured: current, load, ...
    machine: str
    run: str
    row: int  # of the table, where the window begins


def detail_of(channel: str) -> str:
    """The last word of a channel's name: `x_output_current` measures a current."""
    word = channel.rpartition("_")[2]
    return {"speed": "velocity", "depth": "voltage"}.get(word, word)


def window_features(table: Table, channels: tuple[str, ...], most: int = 40) -> list[WindowFeatures]:
    """Features of at most so many windows of each machine and channel, evenly spread over its log."""
    names = table.schema.sensor_names
    missing = [name for name in channels if name not in names]
    if missing or not channels:
        raise TableError(f"The table has no sensor {', '.join(missing) or 'to look at'}.", expected=", ".join(names))
    found: list[WindowFeatures] = []
    for machine in table.machines():
        groups = [group for group in table.groups if group.machine == machine]
        own = row_numbers(groups)
        starts = [
            (group.run, start) for group in groups for start in range(group.start, group.stop - LENGTH + 1, LENGTH)
        ]
        chosen = np.unique(np.linspace(0, len(starts) - 1, min(most, len(starts))).astype(int)).tolist()
        for name in channels:
            values = table.sensors[:, names.index(name)]
            whole = values[own]
            if not np.isfinite(whole).any():
                continue
            scale = float(np.nanpercentile(whole, 99) - np.nanpercentile(whole, 1)) or 1.0
            for index in chosen:
                run, start = starts[index]
                window = slice(start, start + LENGTH)
                if np.isfinite(values[window]).all():
                    features = _features(values[window], table.commands[window, :], scale)
                    found.append(WindowFeatures(features, detail_of(name), machine, f"{machine}/{run}", start))
    if not found:
        raise TableError(f"No window of {LENGTH} rows without a gap was found.", expected="longer sessions")
    return found


def _features(values: Floats, commands: Floats, scale: float) -> list[float]:
    """One number for each of FEATURES."""
    steps = np.abs(np.diff(values))
    same = (np.diff(commands, axis=0) == 0).all(axis=1)
    feeds = commands[:, 1:4]
    usual = float(steps.mean())
    return [
        float((commands == 0).all(axis=1).mean()),
        float(same.mean()),
        float((feeds != 0).sum(axis=1).mean()),
        float((commands[:, 0] != 0).mean()),
        float((steps == 0).mean()),
        float((values == 0).mean()),
        len(np.unique(values)) / len(values),
        _correlation(values[1:], values[:-1]),
        _correlation(values[3:], values[:-3]),
        usual / scale,
        float(steps.max()) / scale,
        float(values.std()) / scale,
        float(values.mean()) / scale,
        float((values < 0).mean()),
        _explained(values, commands[:, :1]),
        _explained(values, np.column_stack((feeds, np.abs(feeds)))),
        float(steps[same].mean()) / usual if same.any() and usual > 0 else 0.0,
    ]


def _correlation(one: Floats, other: Floats) -> float:
    """Zero where nothing varies."""
    spread = float(one.std() * other.std())
    return float(((one - one.mean()) * (other - other.mean())).mean()) / spread if spread > 1e-12 else 0.0


def _explained(values: Floats, commands: Floats) -> float:
    """Share of the variance that a plane in the commands explains."""
    centred = values - values.mean()
    total = float(centred @ centred)
    if total < 1e-20:
        return 0.0
    inputs = commands - commands.mean(axis=0)
    inputs = inputs / np.maximum(np.abs(inputs).max(axis=0), 1e-9)
    weights, *_ = np.linalg.lstsq(inputs, centred, rcond=None)
    left = centred - inputs @ weights
    return float(np.clip(1 - left @ left / total, 0.0, 1.0))
