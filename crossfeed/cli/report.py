"""`crossfeed report`: what was found, as one HTML file with its tables and figures."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Json
from crossfeed.cli.start import quick_start


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a study or of a training run; it may be half done.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the report; default: PLACE/report.")
    ] = None,
    comparison: Annotated[Path | None, typer.Option(help="Folder written by crossfeed compare.")] = None,
    evaluation: Annotated[Path | None, typer.Option(help="Folder written by crossfeed evaluate, or one above.")] = None,
    adaptation: Annotated[Path | None, typer.Option(help="Folder written by crossfeed adapt.")] = None,
    forecast: Annotated[Path | None, typer.Option(help="Folder written by crossfeed what-if.")] = None,
    curve: Annotated[Path | None, typer.Option(help="Folder written by crossfeed curve.")] = None,
    audit: Annotated[list[Path] | None, typer.Option(help="Output of crossfeed audit --json (repeatable).")] = None,
    json: Json = False,
) -> None:
    """Write report.html (one file, no network), tables/ (CSV, LaTeX) and figures/ (PNG).

    Folders named comparison, evaluation, adaptation, forecast, curve and a file audit.json are found beside PLACE, a
    curve also in it, and so are evaluations, adaptations and forecasts of a run's model in folders of any other name.

    Example: crossfeed report mystudy --comparison comparison --audit audit.json
    """
    with quick_start():
        from crossfeed.cli.render.printing import print_json
        from crossfeed.reporting.artefacts import gather
        from crossfeed.reporting.report import write_report
        from crossfeed.show.drawing import prepare_to_draw
        from crossfeed.show.tables import plural

        prepare_to_draw()

    found = gather(
        folder, comparison=comparison, evaluation=evaluation, adaptation=adaptation, forecast=forecast, curve=curve,
        audits=audit or (),
    )  # fmt: skip
    written = write_report(found, out)
    if json:
        print_json(written)
        return
    typer.echo(f"{written.answer}")
    held = f"{plural(len(written.tables) // 2, 'table')}, {plural(len(written.figures), 'figure')}"
    typer.echo(f"{written.report} ({held})")
