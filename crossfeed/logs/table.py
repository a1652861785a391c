"""The canonical table: rows of sensors and commands in contiguous groups, in one Parquet file.

It needs numpy and pyarrow only, so that a prepared table opens on a bare training machine.
N rows, C sensors, A commands; NaN in memory is null in the file and means "absent", never zero.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from crossfeed.errors import TableError
from crossfeed.files import atomic_file, write_json
from crossfeed.schema import Schema
from crossfeed.show.tables import ResultTable, ShownByTables, plain_table, plural, significant

if TYPE_CHECKING:
    import polars

    from crossfeed.logs.mapping import Mapping

KEYS = ("machine", "session", "run", "program")


@dataclass(frozen=True, slots=True)
class Group:
    """A contiguous slice of rows from one machine, run and session; windows never cross it."""

    machine: str
    session: str
    run: str
    program: str
    start: int
    stop: int

    @property
    def key(self) -> str:
        """The name under which splits refer to this group."""
        return f"{self.machine}/{self.run}/{self.session}"

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, repr=False)
class Table(ShownByTables):
    """What every later step reads: values in schema order and schema units, plus where they came from.

    Examples:
        >>> import crossfeed as cf
        >>> table = cf.Table.read("a.parquet")
        >>> table.machines(), len(table.groups), table.period
        (('mill_a',), 6, 1.0)
        >>> blind = table.select(table.groups[:2]).without(["z_current"])
        >>> len(blind), blind.to_polars()["z_current"].null_count()
        (180, 180)
        >>> blind.write("blind.parquet")
        >>> cf.Table.read("blind.parquet").fingerprint() == blind.fingerprint()
        True
    """

    schema: Schema
    groups: tuple[Group, ...]
    time: np.ndarray
    sensors: np.ndarray
    commands: np.ndarray
    period: float
    manifest: dict[str, Any]
    extras: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = len(self.time)
        wanted = {
            "sensors": (self.sensors.shape, (rows, len(self.schema.sensors))),
            "commands": (self.commands.shape, (rows, len(self.schema.commands))),
            **{f"extra '{name}'": (values.shape, (rows,)) for name, values in self.extras.items()},
        }
        for name, (found, expected) in wanted.items():
            if found != expected:
                raise TableError(f"The {name} of the table have the shape {found}.", expected=f"{expected}")
        position = 0
        for group in self.groups:
            if group.start != position or group.stop <= group.start:
                raise TableError(
                    f"Group '{group.key}' covers rows {group.start} to {group.stop}.",
                    expected=f"groups that cover all rows in order; the next one starts at row {position}",
                )
            position = group.stop
        if position != rows:
            raise TableError(f"The groups cover {position} rows.", expected=f"all {rows} rows of the table")

    def __len__(self) -> int:
        return len(self.time)

    def machines(self) -> tuple[str, ...]:
        """The machines in the table, in the order in which they appear."""
        return tuple(dict.fromkeys(group.machine for group in self.groups))

    def present(self) -> np.ndarray:
        """For each sensor, whether any row has a value."""
        return np.asarray(np.isfinite(self.sensors).any(axis=0))

    def shown(self) -> tuple[str, ...]:
        """The sensors of which any row has a value."""
        return tuple(name for name, present in zip(self.schema.sensor_names, self.present(), strict=True) if present)

    def fingerprint(self) -> str:
        """SHA-256 over schema, group keys, time, sensors and commands."""
        digest = hashlib.sha256(self.schema.fingerprint.encode())
        keys = [(g.machine, g.session, g.run, g.program, g.start, g.stop) for g in self.groups]
        digest.update(json.dumps(keys).encode())
        for values in (self.time, self.sensors, self.commands):
            digest.update(hashed_bytes(values))
        return digest.hexdigest()

    def select(self, groups: Sequence[Group]) -> Self:
        """The table of these groups alone, in the order given."""
        members = set(self.groups)
        unknown = [group.key for group in groups if group not in members]
        if unknown or not groups:
            raise TableError(
                f"The table has no group {', '.join(unknown)}." if unknown else "No group was selected.",
                expected="at least one of the table's own groups",
            )
        return replace(
            self.laid_out(groups), manifest=self.manifest | {"selected_groups": [group.key for group in groups]}
        )

    def laid_out(self, groups: Sequence[Group]) -> Self:
        """The table of these stretches of its rows, under the names they bear."""
        rows = row_numbers(groups)
        return replace(
            self, groups=moved_up(groups), time=self.time[rows], sensors=self.sensors[rows],
            commands=self.commands[rows], extras={name: values[rows] for name, values in self.extras.items()},
        )  # fmt: skip

    def without(self, sensor_names: Iterable[str]) -> Self:
        """The same table with these sensors hidden, as on a machine that does not have them."""
        hidden = list(sensor_names)
        sensors = self.sensors.copy()
        for name in hidden:
            if name not in self.schema.sensor_names:
                raise TableError(
                    f"The table has no sensor '{name}'.", expected=f"one of {', '.join(self.schema.sensor_names)}"
                )
            sensors[:, self.schema.sensor_names.index(name)] = np.nan
        extras = {name: values for name, values in self.extras.items() if name.rpartition("__")[0] not in hidden}
        return replace(self, sensors=sensors, extras=extras, manifest=self.manifest | {"hidden_sensors": hidden})

    @classmethod
    def read(cls, path: Path | str, schema: Schema | None = None) -> Self:
        """Read a table; a foreign one is understood by its column names, in `schema` or else the canonical one."""
        from crossfeed.logs.parquet import read_parts

        return cls(**read_parts(Path(path), schema))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        mapping: "Mapping | dict[str, Any] | Path | str | None" = None,
        *,
        schema: Schema | None = None,
        units: dict[str, str] | None = None,
        machine: str | None = None,
        period: float | None = None,
    ) -> "Table":
        """A table from a pandas, polars or pyarrow table, or a dict of columns.

        With a `mapping` (an object, a dict or a YAML file, as `crossfeed ingest table` takes it) the columns may have
        any names. Without one they are called like the channels of the `schema` (the canonical one by default), a unit
        other than the channel's stands in brackets or in `units`, and `time` (seconds or time stamps) is the clock;
        `session`, `run`, `program` and `machine` are read where they are. Rows are sorted, cut at gaps and averaged
        over `period` seconds (by default the usual step of the clock). Sessions without runs count as runs.

        Examples:
            >>> import crossfeed as cf
            >>> log = {"time": [0, 1, 2, 3], "spindle_power [W]": [500, 500, 2000, 2250], "spindle_speed": [9000] * 4}
            >>> log |= {"feed_x": [0, 0, 600, 600], "feed_y": [0] * 4, "feed_z": [0] * 4}
            >>> table = cf.Table.from_frame(log, machine="mill_7")
            >>> table.to_polars()["spindle_power"].to_list()
            [0.5, 0.5, 2.0, 2.25]
        """
        from crossfeed.logs.frames import table_from_frame

        return table_from_frame(frame, mapping, schema, units, machine, period)

    def to_polars(self) -> "polars.DataFrame":
        """All rows with machine, session, run, program, time, channels and extras as columns; null where absent."""
        import polars as pl

        from crossfeed.logs.parquet import to_arrow

        frame = pl.DataFrame(pl.from_arrow(to_arrow(self)))
        return frame.with_columns(pl.col(name).cast(pl.String) for name in KEYS)

    def to_pandas(self) -> Any:
        """The rows as a pandas frame; NaN where absent."""
        from crossfeed.logs.frames import to_pandas

        return to_pandas(self.to_polars())

    def tables(self) -> list[ResultTable]:
        """One line for each channel that has a value; the others are named below."""
        rows, absent = [], []
        for role, channels, values_NC in (
            ("sensor", self.schema.sensors, self.sensors),
            ("command", self.schema.commands, self.commands),
        ):
            for channel, values_N in zip(channels, values_NC.T):
                measured = values_N[np.isfinite(values_N)]
                if not len(measured):
                    absent.append(channel.name)
                    continue
                numbers = (significant(value) for value in (measured.min(), measured.mean(), measured.max()))
                share = len(measured) / len(values_N)
                rows.append([channel.name, role, channel.unit, f"{share:.0%}", *numbers])
        machines = ", ".join(self.machines())
        sessions = plural(len(self.groups), "session")
        title = f"{machines}: {len(self):,} rows, one every {self.period:g} s, in {sessions}"
        remarks = [f"not measured: {', '.join(absent)}"] if absent else []
        heads = ("channel", "role", "unit", "known", "lowest", "mean", "highest")
        return [plain_table(title, heads, rows, remarks, words=3, name="channels")]

    def write(self, path: Path | str) -> None:
        """Write the Parquet file and, beside it, the manifest as readable JSON; each appears whole or not at all."""
        import pyarrow.parquet as pq

        from crossfeed.logs.parquet import to_arrow

        arrow = to_arrow(self)
        with atomic_file(path) as temporary:
            pq.write_table(arrow, temporary, compression="zstd")
        write_json(manifest_path(path), self.manifest)


def row_numbers(groups: Sequence[Group]) -> np.ndarray:
    """The numbers of the rows of these groups, one group after the other."""
    lengths = np.array([len(group) for group in groups], dtype=np.int64)
    begins = np.array([group.start for group in groups], dtype=np.int64) - np.cumsum(lengths) + lengths
    return np.asarray(np.arange(lengths.sum()) + np.repeat(begins, lengths))


def groups_by_machine(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """The groups of every machine, machines in the order in which they appear."""
    of_machine: dict[str, list[Group]] = {}
    for group in groups:
        of_machine.setdefault(group.machine, []).append(group)
    return of_machine


def moved_up(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups one after the other from row 0 on, as they stand in a table of theirs alone."""
    stops = np.cumsum([len(group) for group in groups]).tolist()
    return tuple(replace(group, start=stop - len(group), stop=stop) for group, stop in zip(groups, stops, strict=True))


def hashed_bytes(values: np.ndarray) -> bytes:
    """Numbers as a hash reads them: one bit pattern for NaN and one for zero, whatever computed them."""
    return np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8").tobytes()


def manifest_path(path: Path | str) -> Path:
    """Where the manifest of a table lies: `target.parquet` has `target.manifest.json` beside it."""
    return Path(path).with_suffix(".manifest.json")
