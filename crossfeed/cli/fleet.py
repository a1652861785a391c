"""`crossfeed fleet`: thousands of simulated machines to learn from."""

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(help="Thousands of simulated machines to learn from.", no_args_is_help=True)


@app.command()
def generate(
    out: Annotated[Path, typer.Argument(help="Folder for the shards; an unfinished fleet there is continued.")],
    machines: Annotated[int, typer.Option(min=1, help="How many machines.")] = 1024,
    minutes: Annotated[float, typer.Option(min=2, help="How long each of them works.")] = 40.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes, whatever --jobs.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Shards made at a time.")] = 2,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Cores of this machine, or a Ray cluster.")] = "local",
    address: Annotated[str | None, typer.Option(help="For --engine ray: the address of the cluster.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Simulate random machines, parts and people, and write what their controllers show as tables.

    Example: crossfeed fleet generate fleet --machines 1024 --minutes 40 --jobs 2
    """
    from dataclasses import asdict

    from crossfeed.cli.render.fleet import show_shards
    from crossfeed.cli.render.grid import print_json
    from crossfeed.fleet.shards import FleetPlan, generate
    from crossfeed.progress import output

    shards = generate(out, FleetPlan(machines, minutes, seed), jobs, engine, address)
    if json:
        print_json([asdict(shard) | {"path": str(shard.path)} for shard in shards])
    else:
        show_shards(out, shards, output())
