"""The audit: every check there is, run on whatever was given."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from crossfeed.errors import ConfigError, CrossfeedError, TableError
from crossfeed.logs.align import several
from crossfeed.logs.table import Table
from crossfeed.progress import progress
from crossfeed.windows.audits.causality import check_causality
from crossfeed.windows.audits.clock import check_clock, check_dead
from crossfeed.windows.audits.commands import check_commands, check_swapped
from crossfeed.windows.audits.load import load_case
from crossfeed.windows.audits.split import check_split, check_twins
from crossfeed.windows.audits.subject import SEVERITIES, AuditReport, Case, Finding
from crossfeed.windows.audits.units import check_units
from crossfeed.windows.audits.windows import check_normaliser, check_windows

Check = Callable[[Case], Iterator[Finding]]

CHECKS: dict[str, Check] = {
    "units": check_units,
    "swapped": check_swapped,
    "dead": check_dead,
    "commands": check_commands,
    "clock": check_clock,
    "twins": check_twins,
    "split": check_split,
    "normaliser": check_normaliser,
    "windows": check_windows,
    "causality": check_causality,
}


def audit(
    tables: Table | Path | str | Sequence[Table | Path | str], *, split: Path | str | None = None,
    normaliser: Path | str | None = None, windows: Path | str | None = None, raw: Sequence[tuple[str, Path]] = (),
    only: Sequence[str] = (),
) -> AuditReport:  # fmt: skip
    """Check tables for wrong units, swapped columns, leaks and more; each finding names its probable cause.

    `tables` are tables, or Parquet and CSV files, crossfeed's own or not. The report prints as a table and has
    `violations`, `warnings` and `findings`.

    Examples:
        >>> import crossfeed as cf
        >>> report = cf.audit(cf.Table.read("a.parquet"))
        >>> [finding.check for finding in report.violations]
        []
    """
    given = [table if isinstance(table, Table) else Path(table) for table in several(tables)]
    unknown = [name for name in only if name not in CHECKS]
    if unknown:
        raise ConfigError(f"There is no check '{unknown[0]}'.", expected=f"one of {', '.join(CHECKS)}")
    of_split, of_normaliser, of_windows = (
        None if path is None else Path(path) for path in (split, normaliser, windows)
    )
    case = load_case(given, of_split, of_normaliser, of_windows, raw)
    if not only and case.split is None and case.windows is None:
        _require_meaning(case)
    names = [" and ".join(path.machines()) if isinstance(path, Table) else str(path) for path in given]
    return run_checks(case, only, names)


def run_checks(case: Case, only: Sequence[str] = (), tables: Sequence[str] = ()) -> AuditReport:
    """Run the checks, all of them unless some are named; findings come most severe first."""
    findings: list[Finding] = []
    ran: list[str] = []
    skipped: dict[str, str] = {}
    chosen = [name for name in CHECKS if not only or name in only]
    with progress("audit", total=len(chosen)) as task:
        for name in chosen:
            reason = _missing_input(name, case)
            if reason:
                skipped[name] = reason
            else:
                try:
                    findings += [replace(finding, check=name) for finding in CHECKS[name](case)]
                    ran.append(name)
                except CrossfeedError as error:
                    skipped[name] = f"could not run: {error.found}"
            task.advance(note=name)
    if not ran:
        raise TableError(
            "No check could run: " + "; ".join(f"{name} {reason}" for name, reason in skipped.items()) + ".",
            expected="a table, split, normaliser or window list that at least one check understands",
        )
    findings.sort(key=lambda finding: (SEVERITIES.index(finding.severity), chosen.index(finding.check)))
    return AuditReport(tuple(tables), tuple(findings), tuple(ran), skipped)


def _require_meaning(case: Case) -> None:
    """Refuse a machine of which no column can be understood: every check would pass on it."""
    for subject in case.subjects:
        if not any(signal.quantity for signal in subject.signals):
            raise TableError(
                f"No column of {subject.label} has a name that tells what it measures: "
                f"{', '.join(signal.name for signal in subject.signals[:12])}.",
                expected="names of channels, or words such as spindle_power, X_Strom, n_soll",
                remedy="Describe the columns with a mapping (`crossfeed data template --from FILE`), ingest the log, "
                "and audit the table.",
            )


def _missing_input(name: str, case: Case) -> str:
    """Why a check cannot run on this case, or nothing."""
    signals = [signal for subject in case.subjects for signal in subject.signals]
    if name in ("units", "swapped", "dead") and not any(signal.quantity for signal in signals):
        return "needs columns whose names tell what they measure"
    if name == "twins" and not any(signal.role == "sensor" for signal in signals):
        return "needs columns that are known to be sensors"
    if name == "commands" and not any(
        signal.role == "command" and signal.quantity in ("rotational speed", "feed") for signal in signals
    ):
        return "needs a commanded speed or feed"
    if name == "split" and case.split is None:
        return "needs a split (--split)"
    if name == "normaliser" and (case.normaliser is None or case.split is None or not case.tables):
        return "needs a canonical table, a split and a normaliser (--split, --normaliser)"
    if name == "windows" and not case.tables and case.windows is None:
        return "needs a canonical table or a window list (--windows)"
    return ""
