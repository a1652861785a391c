"""THWS: a Spinner U5-620 with a Siemens 840D sl, three days of production with changeovers, one row a second."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from crossfeed.errors import LogError
from crossfeed.logs.clock import clock_from_text, require_clock
from crossfeed.logs.declaration import CLOCK, PROGRAM, Download, LogFormat, NativeColumn, RawRun, Segmentation
from crossfeed.logs.delimited import read_log
from crossfeed.logs.files import find_files
from crossfeed.logs.log_formats import register_log_format
from crossfeed.schema import canonical

COLUMNS = (
    NativeColumn("Spindle_smoothed_current", "spindle_current", "A"),
    NativeColumn("Spindle_smoothed_torque", "spindle_torque", "N m"),
    # The feature list of the data set says W, but 30 at 52 N m and 20,000 rpm can only be kW.
    NativeColumn("Spindle_smoothed_active_power", "spindle_power", "kW"),
    NativeColumn("X_Axis_smoothed_current", "x_current", "A"),
    NativeColumn("X_Axis_smoothed_torque", "x_torque", "N m"),
    NativeColumn("Y_Axis_smoothed_current", "y_current", "A"),
    NativeColumn("Y_Axis_smoothed_torque", "y_torque", "N m"),
    NativeColumn("Z_Axis_smoothed_current", "z_current", "A"),
    NativeColumn("Z_Axis_smoothed_torque", "z_torque", "N m"),
    NativeColumn("Z_Axis_smoothed_active_power", "z_power", "kW"),
    NativeColumn("Spindle_motor_temperature", "spindle_motor_temp", "degC"),
    NativeColumn("X_Axis_motor_temperature", "x_motor_temp", "degC"),
    NativeColumn("Y_Axis_Motor_temperature", "y_motor_temp", "degC"),
    NativeColumn("Z_Axis_Motor_temperature", "z_motor_temp", "degC"),
    NativeColumn("Spindle_smoothed_intermediate_circuit_voltage", "spindle_dc_voltage", "V"),
    NativeColumn("Spindle_smoothed_modulation_depth", "spindle_mod_depth", "%"),
    NativeColumn("General_temperature", "ambient_temp", "degC"),
    NativeColumn("Spindle_speed", "spindle_speed", "rpm"),
    NativeColumn("X-axis_feed", "feed_x", "mm/min"),
    NativeColumn("Y-axis_feed", "feed_y", "mm/min"),
    NativeColumn("Z-axis_feed", "feed_z", "mm/min"),
)


def base_name(path: pl.Expr) -> pl.Expr:
    """The program a path names: its last element without the Siemens prefix `_N_` and suffix `_MPF`."""
    last = path.str.strip_chars().str.strip_chars_end("/").str.split("/").list.last()
    return last.str.strip_prefix("_N_").str.strip_suffix("_MPF")


def read(log_format: LogFormat, path: Path) -> Iterator[RawRun]:
    """All rows of the log as one run; ingest names the runs after the day on which a session began."""
    files = find_files(path, ["data*.csv"]) or find_files(path, ["*.csv"])
    if len(files) != 1:
        raise LogError(
            f"{path} holds {len(files)} files that could be a THWS log"
            + (f": {', '.join(file.name for file in files)}." if files else "."),
            expected="one file such as data_v1_0_1.csv",
            remedy="Give the path of the file itself.",
        )
    frame, repairs = read_log(files[0], log_format.columns, numbers=["Program_status"], texts=["time", "Program_path"])
    clock = clock_from_text(frame["@time"])
    require_clock(clock, str(files[0]), "time")
    frame = frame.with_columns(clock.alias(CLOCK), base_name(pl.col("@Program_path")).fill_null("").alias(PROGRAM))
    yield RawRun(None, frame.drop("@time"), frame.height, (files[0],), repairs)


LOG_FORMAT = LogFormat(
    name="thws",
    title="THWS production data for five-axis milling with changeovers (Spinner U5-620, Siemens 840D sl)",
    machine="thws",
    schema=canonical(),
    columns=COLUMNS,
    period=1.0,
    segmentation=Segmentation(
        keep={"Program_status": 3.0},
        drop_programs=("MA_JOG_STEP1",),
        boundaries=("Program_path",),
        gap_s=5.0,
        min_rows=64,
    ),
    read=read,
    licence="CC BY 4.0",
    citation="Engelmann, Schmitt, Martinez: Production Data Set for Five-Axis CNC Milling with Multiple Changeovers, "
    "Scientific Data (2025), doi 10.1038/s41597-025-05294-0; data doi 10.5281/zenodo.14094887",
    homepage="https://doi.org/10.5281/zenodo.14094887",
    downloads=(Download("data_v1_0_1.csv", "https://zenodo.org/records/15735480/files/data_v1_0_1.csv"),),
    notes="Whether speed and feeds are set-points or measured values is not documented; `crossfeed audit` tests it.",
)
register_log_format(LOG_FORMAT)
