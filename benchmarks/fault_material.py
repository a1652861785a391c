"""Two small machines, their logs and a configuration that trains in a second or two."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars
import yaml

from crossfeed.configuration import override
from crossfeed.logs.declaration import (
    CLOCK,
    LABEL,
    MICROSECONDS,
    PROGRAM,
    LogFormat,
    NativeColumn,
    RawRun,
    Segmentation,
)
from crossfeed.logs.delimited import read_log
from crossfeed.logs.files import find_files
from crossfeed.schema import Channel, Schema
from crossfeed.training.run_config import RunConfig, preset

SMALL: dict[str, Any] = {
    "model.context": 8, "model.width": 16, "model.heads": 2, "model.members": 1, "model.horizons": [1, 2, 4],
    "training.batch_size": 16, "training.steps_per_epoch": 6, "training.finetune_epochs": 6,
    "training.validation_windows": 64,
}  # fmt: skip


LIVE_ROWS, LIVE_BYTES = 400, 700  # of the log that is recorded, and how much of it is written in a tenth of a second


SENSORS = ("spindle_current", "x_current", "y_current", "spindle_power")


COLUMNS = (
    *(NativeColumn(name, name, "A") for name in SENSORS[:3]), NativeColumn("spindle_power", "spindle_power", "W"),
    NativeColumn("spindle_speed", "spindle_speed", "rpm"), NativeColumn("feed_x", "feed_x", "mm/min"),
)  # fmt: skip


SCHEMA = Schema(
    name="faults",
    sensors=(
        *(Channel(name=name, quantity="current", unit="A") for name in SENSORS[:3]),
        Channel(name="spindle_power", quantity="power", unit="kW"),
    ),
    commands=(
        Channel(name="spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="feed_x", quantity="feed", unit="mm/min"),
    ),
)


def write_logs(folder: Path, gain: float) -> None:
    """Ten short runs of a machine that follows its commands."""
    draw = np.random.default_rng(round(10 * gain))
    folder.mkdir(parents=True)
    for run in range(10):
        speed, feed = (np.repeat(draw.choice([0.0, 2000.0, 4000.0], 20), 5) for _ in range(2))
        state, lines = np.zeros(4), [",".join([*SENSORS, "spindle_speed", "feed_x"])]
        for row in range(100):
            state = 0.6 * state + 0.4 * gain * np.array(
                [speed[row] / 400, feed[row] / 300, feed[row] / 900, speed[row]]
            )
            values = [*(state + draw.normal(size=4) * 0.05), speed[row], feed[row]]
            lines.append(",".join(f"{value:.4f}" for value in values))
        (folder / f"run_{run}.csv").write_text("\n".join(lines) + "\n")


def read_runs(kind: LogFormat, path: Path) -> Iterator[RawRun]:
    """Each file is one run; rows are one second apart."""
    for file in find_files(path, ["*.csv"]):
        frame, repairs = read_log(file, kind.columns)
        clock = polars.int_range(frame.height, eager=True) * MICROSECONDS
        names = {CLOCK: clock, PROGRAM: polars.lit("part"), LABEL: polars.lit(file.stem)}
        frame = frame.with_columns(*(value.alias(name) for name, value in names.items()))
        yield RawRun(file.stem, frame, frame.height, (file,), repairs)


LOG_FORMAT = LogFormat("faults", "a small machine", "faults", SCHEMA, COLUMNS, 1.0, Segmentation(), read_runs)


def config() -> RunConfig:
    """A run of a second or two."""
    return override(preset("crossfeed", "tiny"), SMALL)


def write_live(material: Path) -> None:
    """A log with a clock and its mapping, for the recorder."""
    draw = np.random.default_rng(7)
    values = np.column_stack([np.arange(LIVE_ROWS), draw.normal(size=(LIVE_ROWS, 5)).round(3)])
    names = ["t", "spindle_current", "x_current", "spindle_speed", "feed_x", "feed_y"]
    lines = [",".join(names), *(",".join(f"{value:g}" for value in row) for row in values)]
    (material / "live.csv").write_text("\n".join(lines) + "\n")
    units = {"spindle_current": "A", "x_current": "A", "spindle_speed": "rpm", "feed_x": "mm/min", "feed_y": "mm/min"}
    columns: list[dict[str, Any]] = [{"native": name, "channel": name, "unit": unit} for name, unit in units.items()]
    columns.append({"channel": "feed_z", "constant": 0, "unit": "mm/min"})
    mapping = {"machine": "mill", "time": {"column": "t", "unit": "s"}, "columns": columns}
    (material / "live.yaml").write_text(yaml.safe_dump(mapping))
