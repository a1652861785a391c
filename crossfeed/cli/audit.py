"""`crossfeed audit`: is this table, split, normaliser or window list what it claims to be?"""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Json


def audit(
    tables: Annotated[list[Path], typer.Argument(help="Parquet or CSV tables; crossfeed need not have made them.")],
    split: Annotated[Path | None, typer.Option(help="A split as JSON: lists of sessions for each side.")] = None,
    normaliser: Annotated[Path | None, typer.Option(help="A normaliser as JSON, or a model.safetensors.")] = None,
    windows: Annotated[Path | None, typer.Option(help="A window list: columns first, last, part.")] = None,
    raw: Annotated[
        list[str] | None, typer.Option(help="KIND=PATH of raw logs, to probe their ingest for causality.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run this check only; may be repeated.")] = None,
    json: Json = False,
) -> None:
    """Check tables for wrong units, swapped columns, leaks and more; exit code 1 on a violation.

    Example: crossfeed audit source.parquet target.parquet --split split.json
    """
    from crossfeed.audits.run import audit as run_audit
    from crossfeed.cli.render.printing import next_step, print_result
    from crossfeed.cli.render.results import show_audit

    logs = []
    for text in raw or ():
        log_format, found, path = text.partition("=")
        if not found:
            raise typer.BadParameter(f"'{text}' should look like joanneum=logs/joanneum", param_hint="--raw")
        logs.append((log_format, Path(path)))
    report = run_audit(tables, split=split, normaliser=normaliser, windows=windows, raw=logs, only=only or ())

    def show() -> None:
        show_audit(report)
        if not report.violations:
            next_step("train", "--table", tables[0], "--out", "run")

    print_result(report, json, show)
    raise typer.Exit(report.exit_code)
