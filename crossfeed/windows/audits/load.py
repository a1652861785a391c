"""Open whatever table a user has: crossfeed's own, a foreign Parquet file, or text with any separator."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.errors import CheckpointError, TableError
from crossfeed.files import storage_error
from crossfeed.logs.proposal import read_name
from crossfeed.logs.table import KEYS, Group, Table, groups_by_machine, moved_up, row_numbers
from crossfeed.schema import QUANTITIES, canonical
from crossfeed.windows.audits.subject import Case, Role, Signal, Subject, WindowRows, subjects_of
from crossfeed.windows.normalise import Normaliser

if TYPE_CHECKING:
    import polars as pl

_CLOCKS = ("time", "timestamp", "datetime", "zeit", "t")


def load_case(
    paths: Sequence[Path | Table],
    split: Path | None = None,
    normaliser: Path | None = None,
    windows: Path | None = None,
    raw: Sequence[tuple[str, Path]] = (),
) -> Case:
    """Read all that an audit is to look at; `raw` names kinds of log and where they lie."""
    from crossfeed.logs.log_formats import log_format_named

    subjects: list[Subject] = []
    tables: list[Table] = []
    for path in paths:
        if isinstance(path, Table):
            tables.append(path)
            subjects += subjects_of(path, "table")
            continue
        if not path.is_file():
            raise TableError(f"There is no file {path}.", expected="Parquet or CSV tables", remedy="Check the path.")
        if path.suffix.lower() in (".parquet", ".pq") and _is_canonical(path):
            table = Table.read(path)
            tables.append(table)
            subjects += subjects_of(table, path.stem)
        else:
            subjects += _foreign(path)
    return Case(
        subjects=_unambiguous(subjects),
        tables=tuple(tables),
        split=_read_json(split, "split") if split else None,
        normaliser=_read_normaliser(normaliser) if normaliser else None,
        windows=_read_windows(windows) if windows else None,
        raw=tuple((log_format_named(log_format), path) for log_format, path in raw),
    )


def _is_canonical(path: Path) -> bool:
    """Whether `Table.read` understands the file: crossfeed's metadata, or a clock and canonical channel names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{path} cannot be read as Parquet: {error}", expected="a Parquet or CSV table") from error
    if b"crossfeed" in (schema.metadata or {}):
        return True
    names, channels = set(schema.names), canonical()
    return "time" in names and bool(names & set(channels.sensor_names)) and bool(names & set(channels.command_names))


def _foreign(path: Path) -> list[Subject]:
    """The machines of a table of unknown make: keys and clock by name, every other numeric column a signal."""
    from crossfeed.logs.delimited import read_whole

    frame = read_whole(path)
    if frame.height == 0:
        raise TableError(f"{path} has no rows.", expected="at least one row under the header")
    lower = {name.strip().lower(): name for name in reversed(frame.columns)}
    keys = {key: lower[key] for key in KEYS if key in lower}
    clock = next((lower[name] for name in _CLOCKS if name in lower), None)
    time = _seconds(frame[clock]) if clock else None
    columns = [name for name in frame.columns if name.strip() and name != clock and name not in keys.values()]
    signals = {name: found for name in columns if (found := _numbers(frame[name])) is not None}
    if not signals:
        raise TableError(f"{path} has no numeric column.", expected="at least one column of numbers")
    subjects = []
    groups = _groups(frame, keys, path.stem)
    for machine, of_machine in groups_by_machine(groups).items():
        rows = row_numbers(of_machine)
        steps = np.diff(time[rows]) if time is not None else np.zeros(0)
        steps = steps[steps > 0]
        subjects.append(
            Subject(
                label=machine,
                signals=tuple(_signal(name, *found, rows) for name, found in signals.items()),
                groups=moved_up(of_machine),
                time=time[rows] if time is not None else None,
                period=float(np.median(steps)) if len(steps) else None,
                keyed=bool(keys),
            )
        )
    return subjects


def _numbers(column: "pl.Series") -> tuple[np.ndarray, np.ndarray] | None:
    """The numbers of a column and where it holds text instead; None when it is mostly text."""
    import polars as pl

    values = column.cast(pl.Float64, strict=False) if column.dtype == pl.String else column
    if not values.dtype.is_numeric() or values.null_count() - column.null_count() > len(column) / 2:
        return None
    text = (values.is_null() & column.is_not_null()).to_numpy()
    return values.cast(pl.Float64).to_numpy().astype(np.float64), text


def _signal(name: str, values: np.ndarray, text: np.ndarray, rows: np.ndarray) -> Signal:
    quantity, unit, role, declared = meaning_of(name)
    return Signal(name, quantity, unit, role, values[rows], declared, int(text[rows].sum()))


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


def _seconds(column: "pl.Series") -> np.ndarray | None:
    """A clock in seconds, from numbers or from time stamps; None when it is neither."""
    import polars as pl

    if column.dtype.is_numeric():
        return column.cast(pl.Float64).to_numpy().astype(np.float64)
    try:
        stamps = column.str.to_datetime(time_unit="us", strict=False) if column.dtype == pl.String else column
        micro = stamps.cast(pl.Datetime("us")).dt.epoch("us")
    except pl.exceptions.PolarsError:
        return None
    return None if micro.null_count() == len(micro) else micro.cast(pl.Float64).to_numpy() / 1e6


def _groups(frame: "pl.DataFrame", keys: dict[str, str], label: str) -> list[Group]:
    """Contiguous rows with the same keys; without key columns the whole file is one group."""
    defaults = {"machine": label, "session": "all", "run": "all", "program": ""}
    values = {
        key: frame[keys[key]].cast(str).fill_null("").to_list() if key in keys else [defaults[key]] * frame.height
        for key in KEYS
    }
    rows = list(zip(*(values[key] for key in ("machine", "session", "run")), strict=True))
    starts = [row for row in range(frame.height) if row == 0 or rows[row] != rows[row - 1]]
    stops = [*starts[1:], frame.height]
    return [
        Group(start=start, stop=stop, **{key: values[key][start] for key in KEYS})
        for start, stop in zip(starts, stops, strict=True)
    ]


def _unambiguous(subjects: list[Subject]) -> tuple[Subject, ...]:
    """Number the labels that occur twice, so that findings name one machine."""
    labels = [subject.label for subject in subjects]
    return tuple(
        replace(subject, label=f"{subject.label} ({labels[: i + 1].count(subject.label)})")
        if labels.count(subject.label) > 1
        else subject
        for i, subject in enumerate(subjects)
    )


def _read_json(path: Path, what: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise storage_error("Reading", path, error) from error
    except ValueError as error:
        raise TableError(f"The {what} {path} is not JSON: {error}", expected=f"the JSON text of a {what}") from error
    if not isinstance(content, dict):
        raise TableError(f"The {what} {path} holds a {type(content).__name__}.", expected="a JSON object")
    return content


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
    return Normaliser.from_json(json.dumps(_read_json(path, "normaliser")))


def _read_windows(path: Path) -> WindowRows:
    from crossfeed.logs.delimited import read_whole

    frame = read_whole(path)
    missing = [name for name in ("first", "last", "part") if name not in frame.columns]
    if missing:
        raise TableError(
            f"The window list {path} lacks the columns {', '.join(missing)}.",
            expected="'first' and 'last' (row numbers of the table, both inside the window) and 'part'",
        )
    first, last = (frame[name].cast(int).to_numpy() for name in ("first", "last"))
    return WindowRows(first, last, np.array(frame["part"].cast(str).to_list()))
