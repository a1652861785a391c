"""MTConnect: change-driven logs `timestamp|item|value` of a Mazak Integrex, units from `Devices.xml`, one file a day.

A value holds until it changes; UNAVAILABLE ends it. Item names repeat between devices, so the device is the one that
the file is named after.
"""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from crossfeed.atomic import storage_error
from crossfeed.errors import LogError
from crossfeed.machines.clock import clock_from_text, require_clock
from crossfeed.machines.declaration import CLOCK, PROGRAM, Column, LogKind, RawRun, Segmentation
from crossfeed.machines.devices import Item, read_devices, unit_of
from crossfeed.machines.files import find_files, match_columns
from crossfeed.schema import Channel, Schema

_DAY = re.compile(r"(\d{4})(\d{2})(\d{2})")
_UNAVAILABLE = "UNAVAILABLE"
_LOAD, _TEMPERATURE, _OVERRIDE = (0.0, 300.0), (1.0, 150.0), (0.0, 300.0)
_SPEED, _FEED = (0.0, 20_000.0), (0.0, 1_000.0)

# Units as in the Mazak's device model; `with_units` takes those of the model that lies beside the logs.
COLUMNS = (
    Column("Xload", "x_load", "%", _LOAD),
    Column("Yload", "y_load", "%", _LOAD),
    Column("Zload", "z_load", "%", _LOAD),
    Column("Sload", "spindle_load", "%", _LOAD),
    Column("S2load", "turning_spindle_load", "%", _LOAD),
    Column("Stemp", "spindle_temp", "degC", _TEMPERATURE),
    Column("S2temp", "turning_spindle_temp", "degC", _TEMPERATURE),
    Column("Srpm", "spindle_speed", "rpm", _SPEED),
    Column("S2rpm", "turning_spindle_speed", "rpm", _SPEED),
    Column("Xfrt", "feed_x", "mm/s", _FEED),
    Column("Yfrt", "feed_y", "mm/s", _FEED),
    Column("Zfrt", "feed_z", "mm/s", _FEED),
    Column("Fovr", "feed_override", "%", _OVERRIDE),
    Column("Frapidovr", "rapid_override", "%", _OVERRIDE),
    Column("Sovr", "spindle_override", "%", _OVERRIDE),
)


def _channels(quantity: str, unit: str, *names: str) -> tuple[Channel, ...]:
    return tuple(Channel(name=name, quantity=quantity, unit=unit) for name in names)


SCHEMA = Schema(
    name="mazak_integrex",
    sensors=(
        *_channels("load", "%", "x_load", "y_load", "z_load", "spindle_load", "turning_spindle_load"),
        *_channels("temperature", "degC", "spindle_temp", "turning_spindle_temp"),
    ),
    commands=(
        *_channels("rotational speed", "rpm", "spindle_speed", "turning_spindle_speed"),
        *_channels("feed", "mm/min", "feed_x", "feed_y", "feed_z"),
        *_channels("override", "%", "feed_override", "rapid_override", "spindle_override"),
    ),
)


def with_units(kind: LogKind, path: Path) -> LogKind:
    """The kind with the units that the device model beside the logs states, whatever they are."""
    items = _device(path)
    found = match_columns(items, [column.native for column in kind.columns], "Devices.xml")
    columns = [replace(column, unit=unit_of(items[found[column.native]], "Devices.xml")) for column in kind.columns]
    return replace(kind, columns=tuple(columns))


def _logs(path: Path) -> list[Path]:
    files = find_files(path, ["*.txt", "*.txt.gz"])
    if not files:
        raise LogError(f"{path} holds no MTConnect log.", expected="files ending in .txt or .txt.gz")
    return files


def _model(path: Path) -> Path:
    log = _logs(path)[0]
    for folder in (path, *log.parents[:2]):
        if (folder / "Devices.xml").is_file():
            return folder / "Devices.xml"
    raise LogError(
        f"There is no Devices.xml beside {log}.",
        expected="the MTConnect device model in the folder of the logs: it holds the units",
    )


def _device(path: Path) -> dict[str, Item]:
    files, model = _logs(path), _model(path)
    devices = read_devices(model)
    if len(devices) == 1:
        return next(iter(devices.values()))
    for name, items in devices.items():
        if files[0].name.lower().startswith(name.lower()):
            return items
    raise LogError(
        f"{model} describes {', '.join(devices)}, and {files[0].name} is named after none of them.",
        expected="log files that begin with the name of their device",
    )


def read(kind: LogKind, path: Path) -> Iterator[RawRun]:
    """Each file is one day and one run: rows at the times of change, with everything that is in force."""
    items = [*(column.native for column in kind.columns), "execution", "program"]
    for number, file in enumerate(_logs(path)):
        lines = _lines(file)
        clock = clock_from_text(lines["stamp"], "%Y-%m-%dT%H:%M:%S%.fZ")
        require_clock(clock, str(file), "timestamp")
        repairs: Counter[str] = Counter(
            {
                "lines without a readable time, dropped": clock.null_count(),
                "clock ran backwards, lines sorted by time": int((clock.drop_nulls().diff() < 0).sum()),
            }
        )
        changes = (
            lines.with_columns(clock.alias(CLOCK))
            .filter(pl.col(CLOCK).is_not_null() & pl.col("item").is_in(items))
            .sort(CLOCK, maintain_order=True)
        )
        missing = sorted(set(items) - set(changes["item"].unique()))
        if missing:
            raise LogError(f"{file} never mentions {', '.join(missing)}.", expected="a log of the declared device")
        held = changes.pivot(on="item", index=CLOCK, values="value", aggregate_function="last", maintain_order=True)
        held = held.with_columns(pl.col(items).forward_fill())
        numbers = []
        for column in kind.columns:
            texts = changes.filter(pl.col("item") == column.native)["value"]
            bad = texts.cast(pl.Float64, strict=False).is_null() & (texts != _UNAVAILABLE)
            repairs[f"{column.channel}: text in a numeric column"] = int(bad.sum())
            numbers.append(pl.col(column.native).cast(pl.Float64, strict=False).alias(column.channel))
        program = pl.col("program").fill_null(_UNAVAILABLE).replace(_UNAVAILABLE, "")
        frame = held.select(
            CLOCK,
            program.alias(PROGRAM),
            program.alias("@program"),
            pl.col("execution").alias("@execution"),
            *numbers,
        )
        day = _DAY.search(file.name)
        name = "-".join(day.groups()) if day else file.name.partition(".")[0]
        sources = (_model(path), file) if number == 0 else (file,)
        yield RawRun(name, frame, lines.height, sources, dict(+repairs))


def _lines(file: Path) -> pl.DataFrame:
    """The first three fields of every line; conditions have more, which belong to the value."""
    try:
        raw = gzip.decompress(file.read_bytes()) if file.suffix.lower() == ".gz" else file.read_bytes()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise LogError(f"{file} is not a whole gzip file: {error}", remedy="Fetch the file again.") from error
    except OSError as error:
        raise storage_error("Reading", file, error) from error
    if not raw.strip():
        raise LogError(f"{file} is empty.", expected="lines such as 2016-11-04T14:44:57.65Z|Srpm|5000")
    text = raw.decode("utf-8", errors="replace")
    # No control character occurs in these logs, so each line is one cell.
    whole = pl.read_csv(text.encode(), separator="\x1f", has_header=False, schema={"line": pl.String}, quote_char=None)
    fields = pl.col("line").str.strip_chars().str.splitn("|", 3).struct.rename_fields(["stamp", "item", "value"])
    return whole.select(fields).unnest("line").with_columns(pl.col("item", "value").str.strip_chars())


KIND = LogKind(
    name="mtconnect",
    title="MTConnect change log of a mill-turn centre (Mazak Integrex 100-IV of the NIST test bed, some 900 days)",
    machine="mazak01",
    schema=SCHEMA,
    columns=COLUMNS,
    period=1.0,
    segmentation=Segmentation(
        keep={"execution": "ACTIVE"}, drop_programs=("",), boundaries=("program",), gap_s=0.0, min_s=64.0
    ),
    read=read,
    prepare=with_units,
    change_driven=True,
    licence="public, credit NIST",
    citation="NIST Smart Manufacturing Systems Test Bed, github.com/usnistgov/smstestbed",
    homepage="https://github.com/usnistgov/smstestbed",
    notes="Overrides are set-points; spindle speeds and axis feeds are actual values that stand in for set-points.",
)
