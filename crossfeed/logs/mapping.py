"""The YAML mapping with which users describe their own logs: columns, units, time, sessions."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AllowInfNan,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from crossfeed.configuration import CheckedForm, load_yaml, problems
from crossfeed.errors import ConfigError, CrossfeedError
from crossfeed.logs.clock import check_zone, seconds
from crossfeed.logs.declaration import MICROSECONDS, NativeColumn
from crossfeed.schema import Schema, canonical

TEMPLATE = Path(__file__).with_name("mapping_example.yaml").read_text(encoding="utf-8")

Bound = Annotated[float, AllowInfNan(True)]  # a range may be open


class TimeColumn(CheckedForm):
    """Where the clock is and how it is written; without unit and format, common time stamps are understood.

    `date` names the column of the day where `column` holds only the time of it; `zone` says whose local time it is.
    A log without any clock says instead how much time lies between two rows: `every`.
    """

    column: str | None = None
    every: str | None = None
    unit: str | None = None
    format: str | None = None
    date: str | None = None
    zone: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.column is None) == (self.every is None):
            raise ValueError("give either 'column', the name of the clock, or 'every', the time between rows (0.1 s)")
        if self.every is not None:
            self._check_every(self.every)
        if self.unit and self.format:
            raise ValueError("give 'unit' for numbers or 'format' for text, not both")
        if self.unit and (self.date or self.zone):
            raise ValueError("'date' and 'zone' belong to time stamps in text, not to numbers with a 'unit'")
        if self.date is not None and self.date == self.column:
            raise ValueError("'date' and 'column' are the same; leave 'date' out where one column holds both")
        if self.zone:
            try:
                check_zone(self.zone)
            except ConfigError as error:
                raise ValueError(error.found) from error
        return self

    def _check_every(self, every: str) -> None:
        if self.unit or self.format or self.date or self.zone:
            raise ValueError("'every' stands alone: 'unit', 'format', 'date' and 'zone' belong to a 'column'")
        try:
            step = seconds(every)
        except CrossfeedError as error:
            raise ValueError(f"{error.found.rstrip('.')}; 'every' is a time such as 0.1 s or 2 ms") from error
        if step * MICROSECONDS < 1:
            raise ValueError(f"'every' is {every}, but rows are at least a microsecond apart")


class NamedColumn(CheckedForm):
    """A column that names something."""

    column: str


class ColumnEntry(CheckedForm):
    """One native column and the channel it measures; or, for what a machine does not have, a constant."""

    native: str | None = None
    channel: str
    unit: str | None = None
    valid: tuple[Bound, Bound] | None = None
    constant: float | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.native is None) == (self.constant is None):
            raise ValueError(f"'{self.channel}' needs either 'native', the name of a column, or 'constant', a number")
        if self.valid and not self.valid[0] < self.valid[1]:
            raise ValueError(f"'valid' of '{self.native}' must be [low, high] with low < high")
        return self


class MappedColumn(ColumnEntry):
    """A column of a table, which states its own unit."""

    @model_validator(mode="after")
    def _unit_stated(self) -> Self:
        if self.native is not None and self.unit is None:
            raise ValueError(f"'unit' of '{self.native}' is missing; the factor follows from it")
        return self


class SessionCut(CheckedForm):
    """How rows become sessions where the log does not say."""

    gap_s: float | None = Field(default=None, gt=0)
    min_rows: int = Field(default=1, ge=1)
    longest_s: float | None = Field(default=None, gt=0)
    keep: dict[str, float | str] = {}


class MappingFile(CheckedForm):
    """What mappings of every kind have in common: whose logs they describe, and how they are read."""

    model_config = ConfigDict(populate_by_name=True)

    machine: str
    _source: str = PrivateAttr(default="a mapping")

    @property
    def source(self) -> str:
        """The name of the file that it was read from."""
        return self._source

    @classmethod
    def from_yaml(cls, path: Path | str) -> Self:
        """Read a mapping file; a schema in a file of its own lies beside it."""
        path = Path(path)
        mapping = cls.of(load_yaml(path, "The mapping"), str(path), path.parent)
        mapping._source = path.name
        return mapping

    @classmethod
    def of(cls, content: Any, origin: str, folder: Path | None = None) -> Self:
        """A mapping from plain data, as the YAML file would hold it, with errors that name the entry at fault."""
        try:
            return cls.model_validate(content, context=folder)
        except ValidationError as error:
            raise ConfigError(
                f"The mapping {origin} is not valid: {problems(error, 'the mapping')}.",
                expected="the keys that `crossfeed data template` prints",
                remedy="Correct the mapping; `crossfeed data template` prints a commented example.",
            ) from error

    @field_validator("schema_", mode="before", check_fields=False)
    @classmethod
    def _read_schema(cls, written: Any, info: ValidationInfo) -> Any:
        """The canonical schema, one that is written inline, or a file in the folder of the mapping."""
        if isinstance(written, dict):
            return Schema.from_mapping(written, origin="The schema in the mapping")
        if isinstance(written, str):
            return canonical() if written == "canonical" else Schema.from_yaml((info.context or Path()) / written)
        return written


class ColumnMapping(MappingFile):
    """A mapping in which every column states its unit."""

    schema_: Schema = Field(default_factory=canonical, alias="schema")
    columns: tuple[MappedColumn, ...] = Field(min_length=1)

    def native_columns(self) -> tuple[NativeColumn, ...]:
        """The columns as a kind of log declares them; a constant is in the unit of its channel."""
        return tuple(
            NativeColumn(
                c.native or "", c.channel, c.unit or self.schema_.channel(c.channel).unit, c.valid, constant=c.constant
            )
            for c in self.columns
        )


class Mapping(ColumnMapping):
    """A user's description of a kind of log."""

    time: TimeColumn
    session: NamedColumn | None = None
    run: NamedColumn | None = None
    program: NamedColumn | None = None
    segmentation: SessionCut = SessionCut()
    period: float = Field(default=1.0, gt=0)
    separator: str | None = Field(default=None, min_length=1, max_length=1, pattern=r"^[\t ,;:|!#$%&/~^_]$")
    decimal: Literal[".", ","] | None = None
