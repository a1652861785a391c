"""The audit: every check there is, run on whatever was given."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from crossfeed.errors import ConfigError, CrossfeedError, TableError
from crossfeed.logs.align import several
from crossfeed.logs.table import Table
from crossfeed.progress import progress
from crossfeed.windows.audits.causality import check_causality
from crossfeed.windows.audits.clock import check_clock, check_dead
from crossfeed.windows.audits.commands import check_commands, check_swapped, is_drive_command
from crossfeed.windows.audits.load import load_case
from crossfeed.windows.audits.split import check_split, check_twins
from crossfeed.windows.audits.subject import SEVERITIES, AuditReport, Case, Finding, Signal
from crossfeed.windows.audits.units import check_units
from crossfeed.windows.audits.windows import check_normaliser, check_windows

_NAMED = "needs columns whose names tell what they measure"


class Check(NamedTuple):
    """A function that finds things in a case, whether a case has what it needs, and the words for what is missing."""

    find: Callable[[Case], Iterator[Finding]]
    can_run: Callable[[Case], object] = lambda _: True
    needs: str = ""


def _signals(case: Case) -> list[Signal]:
    return [signal for subject in case.subjects for signal in subject.signals]


def _any_named(case: Case) -> bool:
    return any(signal.quantity for signal in _signals(case))


CHECKS = {
    "units": Check(check_units, _any_named, _NAMED),
    "swapped": Check(check_swapped, _any_named, _NAMED),
    "dead": Check(check_dead, _any_named, _NAMED),
    "commands": Check(
        check_commands, lambda case: any(map(is_drive_command, _signals(case))), "needs a commanded speed or feed"
    ),
    "clock": Check(check_clock),
    "twins": Check(
        check_twins,
        lambda case: any(signal.role == "sensor" for signal in _signals(case)),
        "needs columns that are known to be sensors",
    ),
    "split": Check(check_split, lambda case: case.split is not None, "needs a split (--split)"),
    "normaliser": Check(
        check_normaliser,
        lambda case: case.normaliser and case.split is not None and case.tables,
        "needs a canonical table, a split and a normaliser (--split, --normaliser)",
    ),
    "windows": Check(
        check_windows,
        lambda case: case.tables or case.windows is not None,
        "needs a canonical table or a window list (--windows)",
    ),
    "causality": Check(check_causality),
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
            try:
                if CHECKS[name].can_run(case):
                    findings += [replace(finding, check=name) for finding in CHECKS[name].find(case)]
                    ran.append(name)
                else:
                    skipped[name] = CHECKS[name].needs
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
