"""MTConnect logs of any device: values that hold until they change, channels and units from the device model.

The logs are adapter lines (`timestamp|item|value`, SHDR, plain or gzip) or streams documents (answers to /current and
/sample). A value holds until it changes; UNAVAILABLE ends it. Item names repeat between devices, so the device is the
one that the file is named after, or the one that a mapping names.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from crossfeed.errors import ConfigError, LogError
from crossfeed.logs.clock import clock_from_text, require_clock
from crossfeed.logs.declaration import CLOCK, PROGRAM, LogFormat, RawRun
from crossfeed.logs.files import find_files, match_columns
from crossfeed.logs.log_formats import described, register_log_format
from crossfeed.logs.mtconnect_channels import DeviceMapping, propose
from crossfeed.logs.mtconnect_devices import (
    DEVICES,
    TEXT_ENDINGS,
    UNITS,
    Item,
    is_streams,
    items_of_streams,
    read_devices,
    read_lines,
    read_streams,
    read_xml,
    tag,
    unit_of,
)
from crossfeed.schema import QUANTITIES, conversion, facts_of

_DAY = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})")
_UNAVAILABLE = "UNAVAILABLE"


@dataclass(frozen=True)
class LogSource:
    """Where the observations of one device lie, and what its items are."""

    device: str
    items: Mapping[str, Item]
    model: Path | None
    logs: tuple[Path, ...]
    streams: tuple[Path, ...]

    @property
    def where(self) -> str:
        """How errors call the device model."""
        return self.model.name if self.model else "the streams documents"


def prepared(log_format: LogFormat, path: Path, mapping: DeviceMapping | None = None) -> LogFormat:
    """The kind for the device whose logs lie at the path: the known Mazak, a mapping's channels, or proposed ones."""
    source = find_source(path, mapping.device if mapping else None)
    proposal = propose(source.items)
    execution, program = proposal.execution or "", proposal.program or ""
    if mapping is not None:
        machine, schema, columns = mapping.machine, *mapping.channels(source.items, proposal, source.where)
    elif {column.native.lower() for column in log_format.columns} <= {name.lower() for name in source.items}:
        machine, schema = source.device.lower(), log_format.schema
        item_name = match_columns(source.items, [column.native for column in log_format.columns], source.where)
        columns = tuple(
            replace(column, unit=unit_of(source.items[item_name[column.native]], source.where))
            for column in log_format.columns
        )
    else:
        machine, schema = source.device.lower(), proposal.schema(source.device)
        columns = proposal.columns(source.where)
    segmentation = log_format.segmentation
    if not execution:
        segmentation = replace(segmentation, keep={})
    if not program:
        segmentation = replace(segmentation, drop_programs=(), boundaries=())
    return replace(
        log_format,
        title=log_format.title if schema is log_format.schema else f"MTConnect change log of {source.device}",
        machine=machine,
        schema=schema,
        columns=columns,
        segmentation=segmentation,
        period=mapping.period if mapping and mapping.period else log_format.period,
        read=_DeviceReader(source, execution, program),
    )


def find_source(path: Path, device: str | None = None) -> LogSource:
    """The logs at a path, the device model beside them, and the device that they belong to."""
    files = find_files(path, [*(f"*{ending}" for ending in TEXT_ENDINGS), "*.xml"])
    documents = [file for file in files if file.suffix.lower() == ".xml"]
    logs = tuple(file for file in files if file not in documents)
    folders = dict.fromkeys([*(file.parent for file in files), *(file.parent.parent for file in files[:1])])
    beside = sorted(file for folder in folders for file in folder.glob("*.xml"))
    models = [file for file in beside if tag(read_xml(file, "a device model")) == DEVICES]
    streams = tuple(file for file in documents if is_streams(file))
    if not logs and not streams:
        raise LogError(
            f"{path} holds no MTConnect log.",
            expected=f"files ending in {', '.join(TEXT_ENDINGS)}, or streams documents ending in .xml",
        )
    if not models and not streams:
        raise LogError(
            f"There is no Devices.xml beside {logs[0]}.",
            expected="the MTConnect device model (the answer to /probe) in the folder of the logs: it holds the units",
        )
    model = next((file for file in models if file.name == "Devices.xml"), models[0] if models else None)
    devices = read_devices(model) if model else items_of_streams(streams)
    name = _device(devices, device, str(model or path), logs or streams)
    return LogSource(name, devices[name], model, logs, streams)


def _device(devices: Mapping[str, Mapping[str, Item]], wanted: str | None, where: str, files: tuple[Path, ...]) -> str:
    if wanted is not None:
        match = next((name for name in devices if name.lower() == wanted.lower()), None)
        if match is None:
            raise ConfigError(f"{where} describes no device '{wanted}'.", expected=f"one of {', '.join(devices)}")
        return match
    named = [name for name in devices if files[0].name.lower().startswith(name.lower())]
    if len(devices) == 1 or named:
        return max(named, key=len) if named else next(iter(devices))
    raise LogError(
        f"{where} describes {', '.join(devices)}, and {files[0].name} is named after none of them.",
        expected="log files that begin with the name of their device",
        remedy="Rename the files, or name the device in a mapping (`crossfeed data template --from Devices.xml`).",
    )


@dataclass(frozen=True)
class _DeviceReader:
    """Reads the observations of a device run by run: a day for each adapter log, streams documents together."""

    source: LogSource
    execution: str
    program: str

    def __call__(self, log_format: LogFormat, path: Path) -> Iterator[RawRun]:  # noqa: ARG002 (the source was found before)
        model = (self.source.model,) if self.source.model else ()
        for number, file in enumerate(self.source.logs):
            lines = read_lines(file, self.source.items)
            day = _DAY.search(file.name)
            name = "-".join(day.groups()) if day else file.name.partition(".")[0]
            yield self._run(log_format, lines, name, str(file), (*model, file) if number == 0 else (file,))
        if self.source.streams:
            lines = read_streams(self.source.streams, self.source.device, self.source.items)
            files = (*(() if self.source.logs else model), *self.source.streams)
            yield self._run(log_format, lines, None, "the streams documents", files)

    def _run(
        self, log_format: LogFormat, lines: pl.DataFrame, name: str | None, where: str, files: tuple[Path, ...]
    ) -> RawRun:
        """Rows at the times of change, with everything that is in force."""
        states = [item for item in (self.execution, self.program) if item]
        natives = list(dict.fromkeys(column.native for column in log_format.columns if column.constant is None))
        items = [*natives, *states]
        clock = clock_from_text(lines["stamp"])
        require_clock(clock, where, "timestamp", lines["stamp"])
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
        mentioned = set(changes["item"].unique())
        findings = _never_mentioned(log_format, states, mentioned, where) + _unconverted(
            log_format, self.source.items, lines
        )
        held = changes.pivot(on="item", index=CLOCK, values="value", aggregate_function="last", maintain_order=True)
        held = held.with_columns(pl.lit(None, pl.String).alias(item) for item in items if item not in mentioned)
        held = held.with_columns(pl.col(items).forward_fill())
        numbers = []
        for column in log_format.columns:
            if column.constant is not None:
                numbers.append(pl.lit(column.constant, pl.Float64).alias(column.channel))
                continue
            texts = changes.filter(pl.col("item") == column.native)["value"]
            bad = texts.cast(pl.Float64, strict=False).is_null() & (texts != _UNAVAILABLE)
            repairs[f"{column.channel}: text in a numeric column"] = int(bad.sum())
            numbers.append(pl.col(column.native).cast(pl.Float64, strict=False).alias(column.channel))
        program = pl.col(self.program).fill_null(_UNAVAILABLE).replace(_UNAVAILABLE, "") if self.program else pl.lit("")
        frame = held.select(
            CLOCK,
            program.alias(PROGRAM),
            program.alias("@program"),
            (pl.col(self.execution) if self.execution else pl.lit("ACTIVE")).alias("@execution"),
            *numbers,
        )
        return RawRun(name, frame, lines.height, files, dict(+repairs), findings)


def _never_mentioned(log_format: LogFormat, states: list[str], mentioned: set[str], where: str) -> list[str]:
    """Refuse a log that never tells a command or the state; a sensor that is never told is absent."""
    commands = [
        c.native for c in log_format.columns if c.channel in log_format.schema.command_names and c.constant is None
    ]
    missing = sorted({*commands, *states} - mentioned)
    if missing:
        raise LogError(
            f"{where} never mentions {', '.join(missing)}.",
            expected="a log of the declared device",
            remedy="Leave out in a mapping what it never tells (`crossfeed data template --from Devices.xml`).",
        )
    sensors = sorted({column.native for column in log_format.columns if column.constant is None} - mentioned)
    return [f"{Path(where).name} never mentions {', '.join(sensors)}: absent there"] if sensors else []


def _unconverted(log_format: LogFormat, items: Mapping[str, Item], lines: pl.DataFrame) -> list[str]:
    """Lines recorded from an adapter are in `nativeUnits`, those of an agent in `units`: feeds beyond belief tell."""
    written = {name: UNITS.get(item.native_unit or "", "") for name, item in items.items()}
    other = {name: unit for name, unit in written.items() if unit and unit != UNITS.get(items[name].unit or "", unit)}
    used = [c.native for c in log_format.columns if c.native in other and c.unit != other[c.native]]
    for name in other if used else ():
        for channel in propose({name: items[name]}).channels:
            values = lines.filter(pl.col("item") == name)["value"].cast(pl.Float64, strict=False).drop_nulls().abs()
            reach, valid = values.quantile(0.99), facts_of("feed").valid
            if channel.quantity != "feed" or valid is None or reach is None:
                continue
            stated = unit_of(items[name], name)
            in_units, in_natives = (
                reach * conversion(unit, QUANTITIES["feed"]).scale for unit in (stated, other[name])
            )
            if in_natives <= valid[1] < in_units:
                return [
                    f"{name} reaches {reach:,.0f}, beyond belief in {stated}: the lines of an adapter "
                    "are in nativeUnits; name them in the mapping: "
                    + ", ".join(f"{native}: unit: {other[native]}" for native in used)
                ]
    return []


LOG_FORMAT = described(
    "mtconnect",
    read=lambda log_format, path: prepared(log_format, path).read(log_format, path),
    prepare=prepared,
    detect=lambda path: bool(find_source(path).items),
    change_driven=True,
)
register_log_format(LOG_FORMAT)


def mapped_device(path: Path) -> LogFormat:
    """The kind with the channels that a mapping file chooses."""
    mapping = DeviceMapping.from_yaml(path)
    return replace(LOG_FORMAT, machine=mapping.machine, prepare=partial(prepared, mapping=mapping))
