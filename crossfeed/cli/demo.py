"""`crossfeed demo` and `paper`: the whole story in some minutes, and the whole paper with one command."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.common import Device, Json, Processes


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
    from crossfeed.demo.chapter import DemoSettings
    from crossfeed.demo.story import run_demo

    settings = DemoSettings.of(data, seed)
    content = run_demo(out, settings)
    if json:
        print_json(content)
    else:
        show_headline(content, settings.simulated)
        typer.echo(f"Report: {content['report']}")
    if live:
        from crossfeed.demo.results import show_live

        show_live(out, port)


def paper(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder; run again to go on there.")],
    thws: Annotated[Path | None, typer.Option(help="The THWS logs: folder, archive or table.")] = None,
    joanneum: Annotated[Path | None, typer.Option(help="The JOANNEUM logs: folder, archive or table.")] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="Rehearse on simulated logs of both kinds.")] = False,
    size: Annotated[Literal["tiny", "compact", "base"], typer.Option(help="base: the paper's.")] = "base",
    seeds: Annotated[int, typer.Option(min=2, help="Seeds of the search; confirmation adds up to five.")] = 4,
    clones: Annotated[list[Path] | None, typer.Option(help="Clone of official code (repeatable).")] = None,
    jobs: Processes = 2,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """From raw logs to a page that puts every published number beside the one just made; can be stopped at any time.

    Examples: crossfeed paper --thws logs/thws --joanneum logs/joanneum --out paper

    crossfeed paper --simulated --size tiny --seeds 2 --out rehearsal
    """
    from crossfeed.cli.render.printing import print_json
    from crossfeed.demo.paper.settings import PaperSettings
    from crossfeed.demo.paper.source import PaperRun
    from crossfeed.demo.paper.story import run_paper

    settings = PaperSettings.of(thws, joanneum, simulated, size, seeds)
    content = run_paper(PaperRun(out, settings, jobs, device, tuple(clones or ())))
    if json:
        print_json(content)
    else:
        typer.echo(f"Report: {content['report']}")
