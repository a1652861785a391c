"""Is this table what it claims to be?"""

from collections.abc import Sequence
from pathlib import Path

from crossfeed.audits.finding import AuditReport
from crossfeed.audits.run import audit_files
from crossfeed.front.inputs import several
from crossfeed.ingest.table import Table


def audit(
    tables: Table | Path | str | Sequence[Table | Path | str],
    *,
    split: Path | str | None = None,
    normaliser: Path | str | None = None,
    windows: Path | str | None = None,
    raw: Sequence[tuple[str, Path]] = (),
    only: Sequence[str] = (),
) -> AuditReport:
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
    of_split, of_normaliser, of_windows = (
        None if path is None else Path(path) for path in (split, normaliser, windows)
    )
    return audit_files(given, of_split, of_normaliser, of_windows, raw, only)
