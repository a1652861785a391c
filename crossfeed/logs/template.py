"""A mapping written from a log itself: what was found, why, and a question mark where a person must look."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import numpy as np
import polars as pl

from crossfeed.errors import CrossfeedError, LogError
from crossfeed.logs.clock import FoundClock, find_clock
from crossfeed.logs.delimited import read_whole, sniff
from crossfeed.logs.files import find_files
from crossfeed.logs.log_formats import detect_log_format
from crossfeed.logs.mapped_logs import ENDINGS
from crossfeed.logs.mtconnect_channels import propose
from crossfeed.logs.mtconnect_devices import DEVICES, is_streams, items_of_streams, read_devices, read_xml, tag
from crossfeed.logs.proposal import (
    COLUMNS,
    NAMES,
    ProposedChannel,
    find_columns,
    find_path_feed,
    other_channels,
    signals_of_columns,
)
from crossfeed.programs.trajectory import COMMAND_UNITS, PATH
from crossfeed.schema import QUANTITIES, Channel, canonical

_LAST_COLUMN = 60
_COMMANDED = ("feed", "rotational speed")
_COMMANDS_ALONG_THE_PATH = (
    Channel(name="spindle_speed", quantity="rotational speed", unit=COMMAND_UNITS["spindle_speed"]),
    Channel(name=PATH, quantity="feed", unit=COMMAND_UNITS[PATH]),
)
_BEYOND = 1e15  # no measurement
_NUMERIC = 0.7  # of the cells of a column: error words and a second header line are no reason to leave it out


def template_from(path: Path) -> str:
    """The text of a mapping for the log at a path; of several files the first one is looked at."""
    files = find_files(path, [f"*{ending}" for ending in (*ENDINGS, ".xml")])
    if not files:
        raise LogError(f"{path} holds no logs.", expected=f"files ending in {', '.join(ENDINGS)}, or a Devices.xml")
    if files[0].suffix.lower() == ".xml":
        return _device_template(files[0])
    return _table_template(files[0], files[1:])


def _table_template(file: Path, beside: Sequence[Path] = ()) -> str:
    frame = read_whole(file, numeric_share=_NUMERIC)
    if frame.is_empty():
        raise LogError(f"{file} has a header but no rows.", expected="some rows to look at")
    _refuse_events(file, frame)
    clock = find_clock(frame)
    used = set(clock.columns) if clock else set()
    values = {
        column.name: column.cast(pl.Float64).to_numpy().astype(np.float64)
        for column in frame
        if column.name not in used and column.dtype.is_numeric() and column.name.strip()
    }
    values = {name: np.where(np.abs(column) < _BEYOND, column, np.nan) for name, column in values.items()}
    signals = signals_of_columns(values)
    columns = find_columns(signals)
    others = other_channels(signals, [column.native for column in columns])
    canonical_ones = any(column.channel in canonical().sensor_names for column in columns)
    commands, path = canonical().commands, find_path_feed(signals, columns)
    if path is not None:
        others = [other for other in others if other.quantity not in _COMMANDED]
    if path is not None and (canonical_ones or others):
        columns, commands = [*columns, path], _COMMANDS_ALONG_THE_PATH
    if not canonical_ones or commands is _COMMANDS_ALONG_THE_PATH:
        columns, others = [*others, *columns], []
    lines = [
        f"# Written from {file.name}, {frame.height:,} rows. Lines with a ? are guesses: look at them.",
        "# Then: crossfeed ingest table LOGS OUT.parquet --mapping THIS_FILE",
    ]
    if log_format := detect_log_format(file):
        command = f"crossfeed ingest {log_format.name} LOGS OUT.parquet"
        lines.insert(0, f"# Of the kind {log_format.name}, which needs no mapping: {command}")
    lines += _files_with_other_columns(file, frame.columns, beside)
    lines.append(f"machine: {_yaml(_machine(file, beside))}   # a name of your choice")
    lines += _schema(columns, commands)
    lines += _without_channel(others)
    lines += _time(clock)
    step = clock.step if clock else None
    lines.append(f"period: {max(1.0, round(step, 3)) if step else 1.0:g}   # seconds between the rows of the table")
    used |= {column.native for column in columns}
    numeric = [name for name in values if name not in used]
    lines += _columns(columns, commands, [name for name in numeric if signals[name].reading.commanded])
    named, named_columns = _names(frame, used)
    lines += named
    used |= named_columns
    if file.suffix.lower() != ".parquet":
        dialect = sniff(file)
        lines.append(f"separator: {_yaml(dialect.separator)}")
        lines.append(f'decimal: "{"," if dialect.decimal_comma else "."}"')
    left = [name for name in frame.columns if name.strip() and name not in used]
    if left:
        lines.append(f"# not used: {', '.join(left[:40])}" + (f" and {len(left) - 40} more" if len(left) > 40 else ""))
    return "\n".join(_printable(line) for line in lines) + "\n"


def _refuse_events(file: Path, frame: pl.DataFrame) -> None:
    """A log with a line for each reading has no column for a sensor."""
    plain = {"".join(filter(str.isalpha, name.lower())): name for name in frame.columns}
    signal, value = (
        next((plain[word] for word in known if word in plain), None) for known in (COLUMNS["signal"], COLUMNS["value"])
    )
    if signal is None or value is None or frame[signal].dtype != pl.String or frame[signal].n_unique() < 2:
        return
    beside = next((name for name in frame.columns if name not in (signal, value)), "time")
    raise LogError(
        f"{file} has a line for each reading: '{signal}' names the signal, '{value}' is what it reads.",
        expected="a column for each signal",
        remedy=f"Turn it first; in polars: frame.pivot(on='{signal}', index='{beside}', values='{value}', "
        f"aggregate_function='last'), sorted by '{beside}', then select(pl.all().forward_fill()): a signal holds until "
        "its next line.",
    )


def _schema(columns: list[ProposedChannel], commands: Sequence[Channel]) -> list[str]:
    """The canonical schema, or one of the log's own where that lacks what the log has."""
    sensors = [column for column in columns if column.channel not in [command.name for command in commands]]
    if not sensors:
        return [
            "schema: canonical                   # ? no column looks like a sensor: without one nothing can be learned"
        ]
    if commands is _COMMANDS_ALONG_THE_PATH:
        why = "the feed is one along the path, so the channels are the log's own"
    elif any(column.channel in canonical().sensor_names for column in sensors):
        return ["schema: canonical                   # 17 sensors and 4 commands; what a machine lacks is absent"]
    else:
        why = "no column is a canonical sensor, so the channels are the log's own"
    lines = [f"schema:                             # {why}", "  name: own", "  sensors:"]
    lines += [_channel(column.channel, column.quantity, QUANTITIES[column.quantity]) for column in sensors]
    lines.append("  commands:")
    return lines + [_channel(command.name, command.quantity, command.unit) for command in commands]


def _channel(name: str, quantity: str, unit: str) -> str:
    return f"    - {{name: {name}, quantity: {quantity}, unit: {_yaml(unit)}}}"


def _without_channel(others: Sequence[ProposedChannel]) -> list[str]:
    """A remark about sensors of the log that the canonical schema has no channel for."""
    sensors = [column for column in others if column.quantity not in _COMMANDED]
    if not sensors:
        return []
    some = ", ".join(f"{column.native} ({column.quantity})" for column in sensors[:8])
    more = f" and {len(sensors) - 8} more" if len(sensors) > 8 else ""
    return [
        f"# ? sensors too, for which the canonical schema has no channel: {some}{more}.",
        "#   To forecast them, list them here: schema: {name: own, sensors: [...], commands: [...]}",
    ]


def _time(clock: FoundClock | None) -> list[str]:
    if clock is None:
        return [
            "time: {every: 1 s}   # ? no column looks like a clock: how much time lies between two rows?",
            "#     {column: TIME, unit: s}       # or name the clock, if there is one",
        ]
    entries = ", ".join(f"{key}: {_yaml(value)}" for key, value in clock.entries.items())
    lines = [f"time: {{{entries}}}   #{'' if clock.sure else ' ?'} {clock.reason}"]
    if clock.local:
        lines.append("# ? if these are local times with summer time, add: zone: Europe/Berlin (or yours)")
    return lines


def _files_with_other_columns(file: Path, names: Sequence[str], others: Sequence[Path]) -> list[str]:
    """A remark about logs beside this one that have other columns: they need a mapping of their own."""
    unlike = [other for other in others if _first_names(other) not in (None, {name.strip() for name in names})]
    if not unlike:
        return []
    some = ", ".join(other.name for other in unlike[:3]) + (" and others" if len(unlike) > 3 else "")
    return [
        f"# ? {len(unlike)} of {len(others) + 1} files have other columns than {file.name}: {some}.",
        "#   Another machine needs a mapping of its own: data template --from ONE_OF_THEM.",
    ]


def _first_names(file: Path) -> set[str] | None:
    """The column names of a log, None where it cannot be read: what is wrong with it is said when it is ingested."""
    try:
        if file.suffix.lower() == ".parquet":
            return {name.strip() for name in pl.read_parquet_schema(file)}
        return {name.strip() for name in sniff(file).header}
    except (CrossfeedError, pl.exceptions.PolarsError, OSError):
        return None


def _machine(file: Path, others: Sequence[Path]) -> str:
    """What the files of one machine are called alike, else their folder."""
    letters = takewhile(lambda some: len(set(some)) == 1, zip(file.stem, *(other.stem for other in others)))
    alike = "".join(some[0] for some in letters).rstrip(" _-.0123456789")
    named = others and len(alike) > 2 and alike.lower() not in NAMES["names_of_any_log"]
    return alike if named else file.parent.name or file.stem


def _columns(columns: list[ProposedChannel], commands: Sequence[Channel], commanded: Sequence[str]) -> list[str]:
    lines = ["columns:"]
    for column in columns:
        entry = f"  - {{native: {_yaml(column.native)}, channel: {column.channel}, unit: {_yaml(column.unit)}}}"
        lines.append(f"{entry:<{_LAST_COLUMN}}   #{'' if column.sure else ' ?'} {column.reason}")
    mapped = {column.channel for column in columns}
    for command in commands:
        if command.name not in mapped:
            entry = f"  - {{constant: 0, channel: {command.name}}}"
            why = f"is it one of {', '.join(commanded)}?" if commanded else "right if the machine does not have it"
            lines.append(f"{entry:<{_LAST_COLUMN}}   # ? no column looks like it; {why}")
    return lines


def _names(frame: pl.DataFrame, used: set[str]) -> tuple[list[str], set[str]]:
    """Columns that name programs, runs and sessions, and a state that may say when the machine works."""
    plain = {"".join(filter(str.isalpha, name.lower())): name for name in reversed(frame.columns) if name not in used}
    lines: list[str] = []
    used_here: set[str] = set()
    for key in ("program", "session", "run"):
        if (name := next((plain[word] for word in COLUMNS[key] if word in plain), None)) is not None:
            lines.append(f"{key}: {{column: {_yaml(name)}}}   # entries such as {_yaml(str(frame[name][0]))}")
            used_here.add(name)
    state = next((plain[word] for word in COLUMNS["state"] if word in plain), None)
    keep = ""
    if state is not None and 1 < frame[state].n_unique() <= 12:
        common = frame[state].drop_nulls().mode().sort()[0]
        shown = f"{common:g}" if isinstance(common, int | float) else _yaml(str(common))
        keep = f"   # ? only while it works: add keep: {{{_yaml(state)}: {shown}}}, its most frequent entry"
    cut = f"segmentation: {{gap_s: 10, min_rows: 64}}{keep or '   # a pause of more than 10 s ends a session'}"
    return [*lines, cut], used_here


def _device_template(file: Path) -> str:
    if tag(read_xml(file, "an MTConnect document")) != DEVICES and not is_streams(file):
        raise LogError(f"{file} is no MTConnect document.", expected="a Devices.xml (the answer to /probe), or streams")
    devices = items_of_streams([file]) if is_streams(file) else read_devices(file)
    parts: list[str] = []
    for device, items in devices.items():
        proposal = propose(items)
        lines = [f"machine: {_yaml(device.lower() or 'machine')}", f"device: {_yaml(device)}", "columns:"]
        for one in proposal.channels:
            entry = f"  - {{native: {_yaml(one.native)}, channel: {one.channel}}}"
            lines.append(f"{entry:<{_LAST_COLUMN}}   # {'command' if one.command else 'sensor'}: {one.reason}")
        if proposal.unused:
            lines.append(f"# not used: {', '.join(item.name for item in proposal.unused)}")
        usable = any(one.command for one in proposal.channels) and any(not one.command for one in proposal.channels)
        if not usable:
            lines.insert(0, f"# {device} has no sensor, or no command: nothing can be learned from it.")
        # The first device that can be used is the mapping, the others wait as comments.
        first = usable and not any(not part.startswith("#") for part in parts)
        parts.append("\n".join(_printable(line) for line in (lines if first else [f"# {line}" for line in lines])))
    head = f"# Written from {file.name}. Rename channels, delete lines; units come from the device model.\n"
    return head + "\n".join(parts) + "\n"


def _yaml(text: str) -> str:
    """A text as YAML reads it back, in quotes where it needs them."""
    plain = text.replace("_", "").replace(" ", "").replace("/", "")
    safe = plain.isascii() and plain.isalnum() and not text[0].isdigit() and text == text.strip()
    if safe and text.lower() not in ("yes", "no", "on", "off", "true", "false", "null", "y", "n"):
        return text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(sign if sign.isprintable() else f"\\U{ord(sign):08x}" for sign in quoted) + '"'


def _printable(line: str) -> str:
    """A line without signs that no text file should hold; what must be kept exactly is escaped before."""
    return "".join(sign if sign.isprintable() else " " for sign in line)
