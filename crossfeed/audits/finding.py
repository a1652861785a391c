"""What an audit finds, and the report it is collected in."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["violation", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("violation", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth knowing: a violation spoils results, a warning may, a note never does."""

    check: str
    severity: Severity
    subject: str
    measured: str
    meaning: str
    cause: str
    remedy: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All findings of one audit, with the checks that ran and those that could not, and why."""

    tables: tuple[str, ...]
    findings: tuple[Finding, ...]
    ran: tuple[str, ...]
    skipped: Mapping[str, str]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def exit_code(self) -> int:
        """1 when anything is violated, 0 otherwise."""
        return 1 if self.of("violation") else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "tables": list(self.tables),
            "violations": len(self.of("violation")),
            "warnings": len(self.of("warning")),
            "ran": list(self.ran),
            "skipped": dict(self.skipped),
            "findings": [asdict(finding) for finding in self.findings],
        }
