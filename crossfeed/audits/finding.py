"""What an audit finds, and the report it is collected in."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

from crossfeed.configuration import recorded
from crossfeed.show.tables import ResultTable, ShownByTables, columns, plural

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
