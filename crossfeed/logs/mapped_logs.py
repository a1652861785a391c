"""Any CSV or Parquet log through a mapping."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from crossfeed.errors import ConfigError, LogError
from crossfeed.logs.clock import clock_of, first_unread, require_clock, seconds
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
from crossfeed.logs.delimited import read_log, sniff
from crossfeed.logs.files import find_files, match_columns
from crossfeed.logs.mapping import Mapping

ENDINGS = (".csv", ".txt", ".tsv", ".asc", ".parquet")
_FILE = "@file"  # where rows are counted: how much time lies between two files nobody knows


def mapped_format(path: Path | str) -> LogFormat:
    """The kind of log that a mapping file describes."""
    return log_format_of(Mapping.from_yaml(path))


def log_format_of(mapping: Mapping, frame: pl.DataFrame | None = None) -> LogFormat:
    """The kind of log that a mapping describes; `frame` stands in place of the logs."""
    cut = mapping.segmentation
    boundaries = [mapping.program.column] if mapping.program else []
    boundaries += [_FILE] if mapping.time.every else []
    return LogFormat(
        name="table",
        title=f"{mapping.machine}, as described by {mapping.source}",
        machine=mapping.machine,
        schema=mapping.schema_,
        columns=mapping.native_columns(),
        period=mapping.period,
        segmentation=Segmentation(
            keep=cut.keep,
            boundaries=tuple(boundaries),
            gap_s=cut.gap_s,
            min_rows=cut.min_rows,
            longest_s=cut.longest_s,
        ),
        read=_Reader(mapping, frame),
        local_time=mapping.time.column is not None and mapping.time.unit is None and mapping.time.zone is None,
    )


@dataclass(frozen=True)
class _Reader:
    """Reads every file of a path by the mapping, run by run; or a frame, as if it were one file without bytes."""

    mapping: Mapping
    frame: pl.DataFrame | None = None

    def __call__(self, log_format: LogFormat, path: Path) -> Iterator[RawRun]:
        files = [path] if self.frame is not None else find_files(path, [f"*{ending}" for ending in ENDINGS])
        if not files:
            sheets = [file.name for file in path.rglob("*.xls*")] if path.is_dir() else []
            raise LogError(
                f"{path} holds no logs" + (f", only Excel workbooks such as {sheets[0]}." if sheets else "."),
                expected=f"files ending in {', '.join(ENDINGS)}",
                remedy="In Excel: save each sheet as CSV (File, Save as, CSV UTF-8)." if sheets else "",
            )
        if self.mapping.run is None:
            for file in files:
                yield self._timed(log_format, file.stem, [file])
            return
        whole = self._timed(log_format, None, files)
        column = f"@{self.mapping.run.column}"
        if empty := whole.frame[column].null_count():
            raise LogError(
                f"The run column '{self.mapping.run.column}' is empty in {empty} rows.", expected="a run in every row"
            )
        for part in whole.frame.partition_by(column, maintain_order=True):
            yield replace(whole, name=str(part[column][0]), frame=part, rows_read=part.height)
            whole = replace(whole, files=(), repairs={}, findings=[])  # what the first run has told

    def _timed(self, log_format: LogFormat, name: str | None, files: list[Path]) -> RawRun:
        repairs: Counter[str] = Counter()
        frames, findings = [], []
        constants = [
            pl.lit(c.constant, pl.Float64).alias(c.channel) for c in log_format.columns if c.constant is not None
        ]
        counted = 0
        for file in files:
            frame, counts = self._rows(log_format, file)
            repairs.update(counts)
            if self.mapping.time.every is not None:
                clock, remark = _row_clock(counted, frame.height, self.mapping.time.every), ""
                frame = frame.with_columns(pl.lit(file.name).alias(f"@{_FILE}"))
                counted += frame.height
            else:
                clock, remark = self._clock(frame, file)
            findings += [remark] if remark else []
            frames.append(frame.with_columns(clock.alias(CLOCK), *constants, *self._names()))
        whole = pl.concat(frames)
        return RawRun(name, whole, whole.height, tuple(files) if self.frame is None else (), repairs, findings)

    def _rows(self, log_format: LogFormat, file: Path) -> tuple[pl.DataFrame, dict[str, int]]:
        mapping = self.mapping
        keep = mapping.segmentation.keep
        numbers = [name for name, value in keep.items() if not isinstance(value, str)]
        texts = [name for name, value in keep.items() if isinstance(value, str)]
        texts += [part.column for part in (mapping.session, mapping.run, mapping.program) if part]
        texts += [mapping.time.date] if mapping.time.date else []
        if mapping.time.column is not None:
            (numbers if mapping.time.unit else texts).append(mapping.time.column)
        if both := [name for name in numbers if name in texts]:
            raise ConfigError(f"The mapping uses the column '{both[0]}' both as a number and as text.")
        numbers, texts = list(dict.fromkeys(numbers)), list(dict.fromkeys(texts))
        logged = [column for column in log_format.columns if column.constant is None]
        if self.frame is not None:
            return _select(self.frame.lazy(), self.frame.schema, logged, f"The {file}", numbers, texts)
        if file.suffix.lower() == ".parquet":
            return _read_parquet(logged, file, numbers, texts)
        return read_log(file, logged, numbers, texts, sniff(file, mapping.separator, mapping.decimal))

    def _clock(self, frame: pl.DataFrame, file: Path) -> tuple[pl.Series, str]:
        """The clock, and a remark about entries that are no time."""
        time = self.mapping.time
        assert time.column is not None
        stamps = frame[f"@{time.column}"]
        if time.date is not None:
            day, hour = (frame[f"@{name}"].cast(pl.String).str.strip_chars() for name in (time.date, time.column))
            stamps = day + " " + hour
        clock = clock_of(stamps, time.unit, time.format, time.zone)
        require_clock(clock, str(file), time.column, stamps)
        unread = first_unread(clock, stamps)
        return clock, f"{file.name}: the first entry of '{time.column}' that is no time is '{unread}'" if unread else ""

    def _names(self) -> list[pl.Expr]:
        program, session = self.mapping.program, self.mapping.session
        named = pl.col(f"@{program.column}").fill_null("") if program else pl.lit("")
        return [named.alias(PROGRAM), *([pl.col(f"@{session.column}").fill_null("").alias(LABEL)] if session else [])]


def _row_clock(first: int, rows: int, every: str) -> pl.Series:
    """The clock of rows that are counted, in microseconds; each is rounded alone, so that nothing adds up."""
    number = pl.int_range(first, first + rows, eager=True)
    return (number * (seconds(every) * MICROSECONDS)).round().cast(pl.Int64)


def _read_parquet(
    columns: list[NativeColumn], file: Path, numbers: list[str], texts: list[str]
) -> tuple[pl.DataFrame, dict[str, int]]:
    try:
        rows = pl.scan_parquet(file, glob=False)
        return _select(rows, pl.read_parquet_schema(file), columns, str(file), numbers, texts)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise LogError(f"{file} cannot be read as Parquet: {error}", expected="a whole Parquet file") from error


def _select(
    source: pl.LazyFrame,
    types: dict[str, pl.DataType],
    columns: list[NativeColumn],
    origin: str,
    numbers: list[str],
    texts: list[str],
) -> tuple[pl.DataFrame, dict[str, int]]:
    """The columns of the mapping under the names of their channels, numbers as numbers."""
    native_name = match_columns(types, [*(column.native for column in columns), *numbers, *texts], origin)
    channels = {column.channel: native_name[column.native] for column in columns}
    channels |= {f"@{name}": native_name[name] for name in numbers}
    rows = source.select(
        *(pl.col(name).alias(new) for new, name in channels.items()),
        *(pl.col(native_name[name]).alias(f"@{name}") for name in texts),
    ).collect()
    repairs: dict[str, int] = {}
    casts = []
    for name in channels:
        cast = rows[name].cast(pl.Float64, strict=False)
        if cast.null_count() > rows[name].null_count():
            repairs[f"{name}: text in a numeric column"] = cast.null_count() - rows[name].null_count()
        casts.append(cast)
    plain = [pl.col(f"@{name}").cast(pl.String) for name in texts if not types[native_name[name]].is_temporal()]
    return rows.with_columns(*casts, *plain), repairs
