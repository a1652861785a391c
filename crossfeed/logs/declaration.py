"""What a kind of log declares about itself: columns and units, how it is cut into sessions, licence, source."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from crossfeed.errors import ConfigError, SchemaError
from crossfeed.schema import Conversion, Schema, conversion

if TYPE_CHECKING:
    import polars as pl

# A raw frame holds channels under their own names, further columns of the log under `@` and their name, and what the
# adapters add under `@@`, so that nothing collides whatever a user's columns are called.
CLOCK, PROGRAM, LABEL = "@@clock", "@@program", "@@label"
MICROSECONDS = 1_000_000

# Words the canonical table uses for its own columns.
RESERVED = ("machine", "session", "run", "program", "time")


@dataclass(frozen=True, slots=True)
class NativeColumn:
    """One native column: the channel it measures, the unit it is written in, the values that can be true.

    A column with a `constant` is in no file: it stands for what the machine does not have.
    """

    native: str
    channel: str
    unit: str
    valid: tuple[float, float] | None = None
    absent_if_zero: bool = False
    constant: float | None = None


@dataclass(frozen=True, slots=True)
class Segmentation:
    """How rows become sessions; columns are named as in the log. Without `gap_s`, a long pause ends a session.

    A session longer than `longest_s` is cut into equal pieces, so that one long recording can be split.
    """

    keep: Mapping[str, float | str] = field(default_factory=dict)
    drop_programs: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    gap_s: float | None = None
    min_rows: int = 1
    min_s: float = 0.0
    longest_s: float | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """One file to fetch; a checksum of None is computed and recorded at the first download."""

    name: str
    url: str
    sha256: str | None = None


@dataclass(slots=True)
class RawRun:
    """The rows of one run as logged: channels in native units, marked columns for clock, program and boundaries."""

    name: str | None
    frame: "pl.DataFrame"
    rows_read: int
    files: tuple[Path, ...]
    repairs: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class LogFormat:
    """A kind of log, complete: everything ingest needs to turn it into a canonical table."""

    name: str
    title: str
    machine: str
    schema: Schema
    columns: tuple[NativeColumn, ...]
    period: float
    segmentation: Segmentation
    read: Callable[["LogFormat", Path], Iterator[RawRun]]
    change_driven: bool = False
    local_time: bool = False
    prepare: Callable[["LogFormat", Path], "LogFormat"] | None = None
    detect: Callable[[Path], bool] | None = None  # whether logs are of this kind, where their columns do not tell
    licence: str = "as its owner says"
    non_commercial: bool = False
    citation: str = ""
    homepage: str = ""
    downloads: tuple[Download, ...] = ()
    notes: str = ""

    def __post_init__(self) -> None:
        reserved = [channel.name for channel in self.schema.channels if channel.name in RESERVED]
        if reserved:
            raise SchemaError(
                f"Schema '{self.schema.name}' names a channel '{reserved[0]}'.",
                expected=f"channel names other than {', '.join(RESERVED)}, which the table uses itself",
                remedy="Rename the channel in the schema.",
            )
        named = [column.channel for column in self.columns]
        doubled = sorted({name for name in named if named.count(name) > 1})
        if doubled:
            raise ConfigError(
                f"The columns of '{self.name}' name these channels twice: {', '.join(doubled)}.",
                expected="each channel at most once",
                remedy="Remove one of the two columns, or add a second channel to your schema.",
            )
        for column in self.columns:
            self.conversion(column)
        missing = [name for name in self.schema.command_names if name not in named]
        if missing:
            raise ConfigError(
                f"The columns of '{self.name}' give no {', '.join(missing)}.",
                expected=f"a column for every command of the schema '{self.schema.name}'",
                remedy="Add the columns, or use a schema without these commands.",
            )

    def conversion(self, column: NativeColumn) -> Conversion:
        """The map from the column's unit to the unit of its channel, derived from the two names."""
        channel = self.schema.channel(column.channel)
        try:
            return conversion(column.unit, channel.unit)
        except SchemaError as error:
            raise SchemaError(
                f"Column '{column.native}' is declared in '{column.unit}', but '{channel.name}' is a "
                f"{channel.quantity} in '{channel.unit}'.",
                expected=f"a unit of {channel.quantity}",
                remedy="Correct the unit or the channel of this column.",
            ) from error
