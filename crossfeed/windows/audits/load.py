"""Open whatever table a user has: crossfeed's own, a foreign Parquet file, or text with any separator."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from crossfeed.errors import CheckpointError, TableError
from crossfeed.files import read_json
from crossfeed.logs.clock import clock_of
from crossfeed.logs.delimited import read_whole
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.parquet import groups_of, has_own_schema
from crossfeed.logs.proposal import read_name
from crossfeed.logs.table import KEYS, Table, groups_by_machine, moved_up, row_numbers
from crossfeed.schema import QUANTITIES, canonical
from crossfeed.windows.audits.subject import Case, Role, Signal, Subject, WindowRows, subjects_of
from crossfeed.windows.normalise import Normaliser

_JSON = "Give the JSON file that crossfeed wrote, or one like it."
_CLOCKS = ("time", "timestamp", "datetime", "zeit", "t")


def load_case(
    paths: Sequence[Path | Table],
    split: Path | None = None,
    normaliser: Path | None = None,
    windows: Path | None = None,
    raw: Sequence[tuple[str, Path]] = (),
) -> Case:
    """Read all that an audit is to look at; `raw` names kinds of log and where they lie."""
    subjects: list[Subject] = []
    tables: list[Table] = []
    for path in paths:
        if isinstance(path, Table):
            tables.append(path)
            subjects += subjects_of(path, "table")
            continue
        if not path.is_file():
            raise TableError(f"There is no file {path}.", expected="Parquet or CSV tables", remedy="Check the path.")
        stored = path.suffix.lower() in (".parquet", ".pq")
        frame = None if stored and has_own_schema(path) else read_whole(path)
        if frame is None or (stored and _has_channels(frame.columns)):
            tables.append(Table.read(path))
            subjects += subjects_of(tables[-1], path.stem)
        else:
            subjects += _foreign(path, frame)
    return Case(
        subjects=_unambiguous(subjects),
        tables=tuple(tables),
        split=read_json(split, _JSON) if split else None,
        normaliser=_read_normaliser(normaliser) if normaliser else None,
        windows=_read_windows(windows) if windows else None,
        raw=tuple((log_format_named(log_format), path) for log_format, path in raw),
    )


def _has_channels(names: Sequence[str]) -> bool:
    """Whether `Table.read` understands a table by its names: a clock, and canonical sensors and commands."""
    sensors, commands = canonical().sensor_names, canonical().command_names
    return "time" in names and not set(names).isdisjoint(sensors) and not set(names).isdisjoint(commands)


def _foreign(path: Path, frame: pl.DataFrame) -> list[Subject]:
    """The machines of a table of unknown make: keys and clock by name, every other numeric column a signal."""
    if frame.height == 0:
        raise TableError(f"{path} has no rows.", expected="at least one row under the header")
    lower = {name.strip().lower(): name for name in reversed(frame.columns)}
    keys = {key: lower[key] for key in KEYS if key in lower}
    clock = next((lower[name] for name in _CLOCKS if name in lower), None)
    time = _seconds(frame[clock]) if clock else None
    columns = [name for name in frame.columns if name.strip() and name != clock and name not in keys.values()]
    signals = [signal for name in columns if (signal := _signal(frame[name])) is not None]
    if not signals:
        raise TableError(f"{path} has no numeric column.", expected="at least one column of numbers")
    subjects = []
    named = frame.select(pl.col(name).cast(pl.String).alias(key) for key, name in keys.items())
    groups = groups_of(named.to_arrow() if keys else frame.to_arrow(), path.stem)
    for machine, of_machine in groups_by_machine(groups).items():
        rows = row_numbers(of_machine)
        steps = np.diff(time[rows]) if time is not None else np.zeros(0)
        steps = steps[steps > 0]
        subjects.append(
            Subject(
                label=machine,
                signals=tuple(
                    replace(signal, values=signal.values[rows], text=signal.text[rows]) for signal in signals
                ),
                groups=moved_up(of_machine),
                time=time[rows] if time is not None else None,
                period=float(np.median(steps)) if len(steps) else None,
                keyed=bool(keys),
            )
        )
    return subjects


def _signal(column: pl.Series) -> Signal | None:
    """A column of numbers, with the cells that hold text instead; None when most of them do."""
    values = column.cast(pl.Float64, strict=False) if column.dtype == pl.String else column
    if not values.dtype.is_numeric() or values.null_count() - column.null_count() > len(column) / 2:
        return None
    quantity, unit, role, declared = meaning_of(column.name)
    text = (values.is_null() & column.is_not_null()).to_numpy()
    return Signal(column.name, quantity, unit, role, values.cast(pl.Float64).to_numpy().astype(float), declared, text)


def meaning_of(name: str) -> tuple[str | None, str | None, Role, bool]:
    """What a column measures, its unit and role, and whether that is declared by a canonical name or a guess."""
    schema = canonical()
    if name in (*schema.sensor_names, *schema.command_names):
        channel = schema.channel(name)
        return channel.quantity, channel.unit, "sensor" if name in schema.sensor_names else "command", True
    reading = read_name(name)
    quantity = "rotational speed" if reading.quantity == "velocity" else reading.quantity  # a feed would name its axis
    if quantity is None:
        return None, None, "other", False
    return quantity, reading.unit or QUANTITIES[quantity], "command" if reading.commanded else "sensor", False


def _seconds(column: pl.Series) -> np.ndarray | None:
    """A clock in seconds, from numbers or from time stamps; None when it is neither."""
    if column.dtype.is_numeric():
        return column.cast(pl.Float64).to_numpy().astype(np.float64)
    micro = clock_of(column, None)
    return None if micro.null_count() == len(micro) else micro.cast(pl.Float64).to_numpy() / 1e6


def _unambiguous(subjects: list[Subject]) -> tuple[Subject, ...]:
    """Number the labels that occur twice, so that findings name one machine."""
    labels = [subject.label for subject in subjects]
    return tuple(
        replace(subject, label=f"{subject.label} ({labels[: i + 1].count(subject.label)})")
        if labels.count(subject.label) > 1
        else subject
        for i, subject in enumerate(subjects)
    )


def _read_normaliser(path: Path) -> Normaliser:
    """A normaliser from its JSON text, or from the metadata of a model file."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as handle:
                metadata = handle.metadata() or {}
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}", expected="a model file of crossfeed") from error
        if "normaliser" not in metadata:
            raise CheckpointError(f"{path} carries no normaliser.", expected="a model file of crossfeed")
        return Normaliser.from_json(metadata["normaliser"])
    return Normaliser.from_json(json.dumps(read_json(path, _JSON)))


def _read_windows(path: Path) -> WindowRows:
    frame = read_whole(path)
    missing = [name for name in ("first", "last", "part") if name not in frame.columns]
    if missing:
        raise TableError(
            f"The window list {path} lacks the columns {', '.join(missing)}.",
            expected="'first' and 'last' (row numbers of the table, both inside the window) and 'part'",
        )
    first, last = (frame[name].cast(int).to_numpy() for name in ("first", "last"))
    return WindowRows(first, last, np.array(frame["part"].cast(str).to_list()))
