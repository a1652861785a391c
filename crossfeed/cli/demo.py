"""`crossfeed demo`: the whole story in some minutes."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Json


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder; run again to go on there.")] = Path("demo"),
    data: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="KIND DIR", help="Real logs instead of the simulator: michigan DIR or mtconnect DIR."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated machines.")] = 0,
    live: Annotated[
        bool, typer.Option("--live", help="Then look at machine B at work, live in the browser, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="For --live: port of the page, 0 for any.")] = 8400,
    json: Json = False,
) -> None:
    """From raw logs to a sealed target and what-ifs, in about four minutes on two cores; can be stopped at any time.

    Examples: crossfeed demo --out demo

    crossfeed demo --live

    crossfeed demo --data michigan logs/michigan --out demo-michigan
    """
    from crossfeed.cli.render.printing import print_json
    from crossfeed.cli.render.results import show_headline
    from crossfeed.demo.settings import DemoSettings
    from crossfeed.demo.story import run_demo

    settings = DemoSettings.of(data, seed)
    content = run_demo(out, settings)
    if json:
        print_json(content)
    else:
        show_headline(content, settings.simulated)
        typer.echo(f"Report: {content['report']}")
    if live:
        from crossfeed.demo.live import show_live

        show_live(out, port)
