"""What an audit looks at: the signals of one machine, whoever made the table, and which of them belong to one drive."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import yaml

from crossfeed.configuration import recorded
from crossfeed.logs.proposal import read_name
from crossfeed.logs.table import Group, Table, groups_by_machine
from crossfeed.show.tables import ResultTable, ShownByTables, columns, plural
from crossfeed.windows.normalise import Normaliser

if TYPE_CHECKING:
    from crossfeed.logs.declaration import LogFormat


Role = Literal["sensor", "command", "other"]
AXES = ("x", "y", "z")
_BUS = ("dc", "bus", "link", "intermediate", "circuit", "zwischenkreis")


@dataclass(frozen=True, eq=False)
class Signal:
    """One column with what is known, or guessed from its name, about its meaning; `text` marks cells that held text."""

    name: str
    quantity: str | None
    unit: str | None
    role: Role
    values: np.ndarray
    declared: bool = True
    text: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @cached_property
    def finite(self) -> np.ndarray:
        """The values that were measured."""
        return np.asarray(self.values[np.isfinite(self.values)])

    @cached_property
    def reach(self) -> float:
        """How far from zero the signal goes: the 99.8 % quantile of its magnitude, 0 when nothing was measured."""
        return float(np.quantile(np.abs(self.finite), 0.998)) if len(self.finite) else 0.0

    @cached_property
    def spread(self) -> float:
        """The width of the middle 95 % of the values."""
        return float(np.subtract(*np.quantile(self.finite, (0.975, 0.025)))) if len(self.finite) else 0.0


@dataclass(frozen=True, eq=False)
class Subject:
    """The rows of one machine. `keyed` says whether its groups were named in the file or assumed."""

    label: str
    signals: tuple[Signal, ...]
    groups: tuple[Group, ...]
    time: np.ndarray | None
    period: float | None
    keyed: bool

    def signal(self, name: str) -> Signal | None:
        """A signal by name, if it has any value."""
        return next((signal for signal in self.measured if signal.name == name), None)

    @cached_property
    def measured(self) -> tuple[Signal, ...]:
        """The signals that have values."""
        return tuple(signal for signal in self.signals if len(signal.finite))

    def of(self, quantity: str, role: Role | None = None) -> list[Signal]:
        """The measured signals of one quantity."""
        return [s for s in self.measured if s.quantity == quantity and (role is None or s.role == role)]


@dataclass(frozen=True, eq=False)
class Case:
    """Everything an audit was given."""

    subjects: tuple[Subject, ...]
    tables: tuple[Table, ...] = ()
    split: dict[str, Any] | None = None
    normaliser: Normaliser | None = None
    windows: "WindowRows | None" = None
    raw: tuple[tuple["LogFormat", Path], ...] = ()


@dataclass(frozen=True, eq=False)
class WindowRows:
    """A list of windows from anywhere: each covers the rows first..last of the one table, for one side."""

    first: np.ndarray
    last: np.ndarray
    part: np.ndarray


def subjects_of(table: Table, label: str) -> tuple[Subject, ...]:
    """One subject for each machine of a canonical table."""
    subjects = []
    of_machine = groups_by_machine(table.groups)
    for machine, groups in of_machine.items():
        rows = table.laid_out(groups) if len(of_machine) > 1 else table
        roles: Sequence[tuple[Role, Any, np.ndarray]] = (
            ("sensor", table.schema.sensors, rows.sensors),
            ("command", table.schema.commands, rows.commands),
        )
        signals = tuple(
            Signal(channel.name, channel.quantity, channel.unit, role, block[:, column])
            for role, channels, block in roles
            for column, channel in enumerate(channels)
        )
        name = machine or label
        subjects.append(Subject(name, signals, rows.groups, rows.time, rows.period, keyed=True))
    return tuple(subjects)


def drive_of(signal: Signal) -> str | None:
    """`spindle`, `x`, `y` or `z`, or None when the name says nothing."""
    drive = read_name(signal.name).drive
    return drive if drive != "ambient" else None


def is_bus(signal: Signal) -> bool:
    """Whether a voltage is that of the DC link rather than of the motor."""
    return signal.quantity == "voltage" and any(part in signal.name.lower() for part in _BUS)


def signals_of(subject: Subject, drive: str, quantity: str, role: Role | None = None) -> list[Signal]:
    """The measured signals of one drive and quantity."""
    return [signal for signal in subject.of(quantity, role) if drive_of(signal) == drive]


def command_of(subject: Subject, drive: str) -> Signal | None:
    """The set-point that moves a drive: spindle speed, or the feed of the axis."""
    quantity = "rotational speed" if drive == "spindle" else "feed"
    speeds = signals_of(subject, drive, quantity, "command")
    return speeds[0] if speeds else None


def inside_groups(subject: Subject, rows: int) -> np.ndarray:
    """For each pair of neighbouring rows, whether both lie in one group."""
    inside = np.ones(rows - 1, dtype=bool)
    inside[[group.stop - 1 for group in subject.groups[:-1]]] = False
    return inside


Severity = Literal["violation", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("violation", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth knowing: a violation spoils results, a warning may, a note never does.

    Which check found it is filled in by whoever runs the checks.
    """

    check: str = field(default="", kw_only=True)
    severity: Severity
    subject: str
    measured: str
    meaning: str
    cause: str
    remedy: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)


@cache
def _texts() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(Path(__file__).with_name("findings.yaml").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def finding(
    name: str,
    subject: str,
    measured: str,
    numbers: Mapping[str, float | int | str] | None = None,
    severity: Severity | None = None,
    **words: object,
) -> Finding:
    """The finding of this name in findings.yaml, with `words` filled into its texts; of another severity if told."""
    texts = _texts()[name]
    meaning, cause, remedy = (texts[key].format(**words) for key in ("meaning", "cause", "remedy"))
    return Finding(severity or texts["severity"], subject, measured, meaning, cause, remedy, numbers or {})


@dataclass(frozen=True, slots=True, repr=False)
class AuditReport(ShownByTables):
    """All findings of one audit, with the checks that ran and those that could not, and why.

    Examples:
        >>> import crossfeed as cf
        >>> table = cf.Table.read("a.parquet")
        >>> table.commands[:, 0] = 3000.0
        >>> report = cf.audit(table)
        >>> len(report.violations), report.exit_code, "warnings" in str(report)
        (0, 0, True)
    """

    audited: tuple[str, ...]
    findings: tuple[Finding, ...]
    ran: tuple[str, ...]
    skipped: Mapping[str, str]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """What spoils results."""
        return self.of("violation")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What may spoil results."""
        return self.of("warning")

    def tables(self) -> list[ResultTable]:
        """Each finding with its meaning, cause and remedy, the most severe first."""
        keys = ("severity", "check", "subject", "measured", "meaning", "cause")
        heads = columns(*((key, key, "text") for key in keys), ("remedy", "to do", "text"))
        rows = tuple(asdict(finding) for finding in self.findings)
        counts = ", ".join(plural(len(self.of(name)), name) for name in SEVERITIES)
        remarks = (f"checks: {', '.join(self.ran)}", *(f"not run: {name} {why}" for name, why in self.skipped.items()))
        return [ResultTable("audit", f"{counts} in {', '.join(self.audited)}", heads, rows, remarks=remarks)]

    def _first_look(self) -> list[ResultTable]:
        """Notes are counted and kept in `findings`."""
        (table,) = self.tables()
        return [replace(table, rows=tuple(row for row in table.rows if row["severity"] != "note"))]

    @property
    def exit_code(self) -> int:
        """1 when anything is violated, 0 otherwise."""
        return 1 if self.of("violation") else 0

    @classmethod
    def from_dict(cls, content: Any, origin: str = "The audit") -> Self:
        """What `to_dict` gave; content that is none is refused."""
        named = {"audited": content.get("tables"), **content} if isinstance(content, Mapping) else content
        return recorded(cls, named, origin, "an audit", "crossfeed audit --json", "Audit again.")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "tables": list(self.audited),
            "violations": len(self.of("violation")),
            "warnings": len(self.of("warning")),
            "ran": list(self.ran),
            "skipped": dict(self.skipped),
            "findings": [asdict(finding) for finding in self.findings],
        }
