"""Michigan: 18 runs of a small CNC mill, ten rows a second, one S-shaped part in three layers each."""

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from crossfeed.errors import LogError
from crossfeed.logs.declaration import (
    CLOCK,
    LABEL,
    MICROSECONDS,
    PROGRAM,
    Download,
    LogFormat,
    NativeColumn,
    RawRun,
    Segmentation,
)
from crossfeed.logs.delimited import read_log
from crossfeed.logs.files import find_files
from crossfeed.logs.log_formats import register_log_format
from crossfeed.schema import Channel, Schema

ROWS_PER_SECOND = 10
_FILE = re.compile(r"experiment_\d+", re.IGNORECASE)
# Every run mills the same part; the program number in the files also shows other values after the end.
_PROGRAM = "S"
_DRIVES = {"x": "X1", "y": "Y1", "z": "Z1", "spindle": "S1"}


def _drive(name: str, prefix: str) -> tuple[NativeColumn, ...]:
    """The electrical signals of one drive; a drive whose signal is zero throughout a run was not measured."""
    columns = [
        NativeColumn(f"{prefix}_CurrentFeedback", f"{name}_current", "A", (-500.0, 500.0), absent_if_zero=True),
        # The header has the next two the wrong way round: a bus of 0.07 V with 320 A cannot be.
        NativeColumn(f"{prefix}_DCBusVoltage", f"{name}_output_current", "A", (-100.0, 100.0), absent_if_zero=True),
        NativeColumn(f"{prefix}_OutputCurrent", f"{name}_dc_voltage", "V", (0.0, 1000.0), absent_if_zero=True),
        NativeColumn(f"{prefix}_OutputVoltage", f"{name}_output_voltage", "V", (-1000.0, 1000.0), absent_if_zero=True),
    ]
    if name != "z":
        columns.append(NativeColumn(f"{prefix}_OutputPower", f"{name}_power", "kW", (-50.0, 50.0), absent_if_zero=True))
    return tuple(columns)


COLUMNS = (
    *(column for name, prefix in _DRIVES.items() for column in _drive(name, prefix)),
    NativeColumn("X1_ActualVelocity", "x_velocity", "mm/s"),
    NativeColumn("Y1_ActualVelocity", "y_velocity", "mm/s"),
    NativeColumn("Z1_ActualVelocity", "z_velocity", "mm/s"),
    NativeColumn("S1_ActualVelocity", "spindle_actual_speed", "revolution/s"),
    NativeColumn("S1_CommandVelocity", "spindle_speed", "revolution/s"),
    NativeColumn("X1_CommandVelocity", "feed_x", "mm/s"),
    NativeColumn("Y1_CommandVelocity", "feed_y", "mm/s"),
    NativeColumn("Z1_CommandVelocity", "feed_z", "mm/s"),
)

_QUANTITIES = {
    "current": ("current", "A"),
    "voltage": ("voltage", "V"),
    "power": ("power", "kW"),
    "velocity": ("feed", "mm/min"),
    "speed": ("rotational speed", "rpm"),
}
_COMMANDS = ("spindle_speed", "feed_x", "feed_y", "feed_z")


def _channel(name: str) -> Channel:
    quantity, unit = _QUANTITIES["velocity" if name.startswith("feed") else name.rpartition("_")[2]]
    return Channel(name=name, quantity=quantity, unit=unit)


SCHEMA = Schema(
    name="michigan",
    sensors=tuple(_channel(column.channel) for column in COLUMNS if column.channel not in _COMMANDS),
    commands=tuple(_channel(name) for name in _COMMANDS),
)


def read(log_format: LogFormat, path: Path) -> Iterator[RawRun]:
    """Each file is one run and one session."""
    files = [file for file in find_files(path, ["*.csv"]) if _FILE.fullmatch(file.stem)]
    if not files:
        raise LogError(f"{path} holds no Michigan log.", expected="files such as experiment_01.csv")
    for file in files:
        frame, repairs = read_log(file, log_format.columns)
        frame, findings = _by_content(frame)
        clock = pl.int_range(frame.height, eager=True) * (MICROSECONDS // ROWS_PER_SECOND)
        frame = frame.with_columns(clock.alias(CLOCK), pl.lit(_PROGRAM).alias(PROGRAM), pl.lit(file.stem).alias(LABEL))
        yield RawRun(file.stem, frame, frame.height, (file,), repairs, findings)


def _by_content(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Tell bus voltage and output current apart by what the columns hold: the bus carries hundreds of volts."""
    interchanged, as_named = [], []
    for name in _DRIVES:
        volts, amperes = f"{name}_dc_voltage", f"{name}_output_current"
        higher, lower = frame[volts].abs().median(), frame[amperes].abs().median()
        if not isinstance(higher, float) or not isinstance(lower, float) or higher == lower == 0.0:
            continue
        if higher > lower:
            interchanged.append(name)
        else:
            as_named.append(name)
            frame = frame.rename({volts: amperes, amperes: volts})
    findings = []
    if interchanged:
        findings.append(
            f"the headers DCBusVoltage and OutputCurrent are interchanged ({', '.join(interchanged)}); "
            "the columns were read by what they hold"
        )
    if as_named:
        findings.append(f"the headers DCBusVoltage and OutputCurrent are right ({', '.join(as_named)})")
    return frame, findings


LOG_FORMAT = LogFormat(
    name="michigan",
    title="University of Michigan SMART lab CNC mill, 18 machining experiments at 10 Hz",
    machine="michigan",
    schema=SCHEMA,
    columns=COLUMNS,
    period=1.0 / ROWS_PER_SECOND,
    segmentation=Segmentation(),
    read=read,
    licence="CC0",
    citation="System-level Manufacturing and Automation Research Testbed (SMART), University of Michigan: CNC Mill "
    "Tool Wear (2018), kaggle.com/datasets/shasun/tool-wear-detection-in-cnc-mill",
    homepage="https://www.kaggle.com/datasets/shasun/tool-wear-detection-in-cnc-mill",
    downloads=(
        Download(
            "michigan.zip", "https://www.kaggle.com/api/v1/datasets/download/shasun/tool-wear-detection-in-cnc-mill"
        ),
    ),
    notes="Bus voltage and output current are interchanged in the header; the Z drive was not measured electrically.",
)
register_log_format(LOG_FORMAT)
