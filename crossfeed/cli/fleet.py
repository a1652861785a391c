"""`crossfeed fleet`: thousands of simulated machines to learn from."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Device, Json, Resume

app = typer.Typer(name="fleet", help="Thousands of simulated machines to learn from.", no_args_is_help=True)


@app.command()
def generate(
    out: Annotated[Path, typer.Argument(help="Folder for the shards; an unfinished fleet there is continued.")],
    machines: Annotated[int, typer.Option(min=1, help="How many machines.")] = 1024,
    minutes: Annotated[float, typer.Option(min=2, help="How long each of them works.")] = 40.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes, whatever --jobs.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Shards made at a time.")] = 2,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Cores of this machine, or a Ray cluster.")] = "local",
    address: Annotated[str | None, typer.Option(help="For --engine ray: the address of the cluster.")] = None,
    json: Json = False,
) -> None:
    """Simulate random machines, parts and people, and write what their controllers show as tables.

    Example: crossfeed fleet generate fleet --machines 1024 --minutes 40 --jobs 2
    """
    from crossfeed.cli.render.inputs import show_shards
    from crossfeed.cli.render.printing import print_result
    from crossfeed.fleet.shards import FleetPlan, generate

    shards = generate(out, FleetPlan(machines, minutes, seed), jobs, engine, address)
    print_result(shards, json, lambda: show_shards(out, shards))


_Fleet = Annotated[Path, typer.Argument(help="Folder that `crossfeed fleet generate` wrote.")]
_Real = Annotated[Path, typer.Option("--table", "-t", help="A real log, as a table of `crossfeed ingest`.")]
_Renames = Annotated[
    list[str] | None,
    typer.Option("--rename", help="A channel under the name it has in the fleet: OWN=FLEET; repeats."),
]


@app.command()
def describe(
    folder: _Fleet,
    table: _Real,
    rename: _Renames = None,
    json: Json = False,
) -> None:
    """Put a real log beside the fleet: ranges, standing rows, resolution, noise and memory of every shared channel.

    Example: crossfeed fleet describe fleet --table mill.parquet --rename spindle_temp=spindle_motor_temp
    """
    from dataclasses import asdict

    from crossfeed.cli.render.inputs import show_matches
    from crossfeed.cli.render.printing import print_result
    from crossfeed.fleet.describe import describe
    from crossfeed.ingest.table import Table

    matches = describe(folder, Table.read(table), _renamed(rename))
    print_result([asdict(match) | {"inside": match.inside} for match in matches], json, lambda: show_matches(matches))


@app.command()
def compare(
    folder: _Fleet,
    table: _Real,
    rename: _Renames = None,
    json: Json = False,
) -> None:
    """Let trees tell windows of the fleet from windows of a real log, and say what gives the fleet away.

    Example: crossfeed fleet compare fleet --table mill.parquet
    """
    from dataclasses import asdict

    from crossfeed.cli.render.inputs import show_fleet_comparison
    from crossfeed.cli.render.printing import print_result
    from crossfeed.fleet.compare import compare_with_real
    from crossfeed.ingest.table import Table

    found = compare_with_real(folder, Table.read(table), _renamed(rename))
    print_result(asdict(found) | {"inside": found.inside}, json, lambda: show_fleet_comparison(found))


def _renamed(pairs: list[str] | None) -> dict[str, str]:
    """OWN=FLEET as given on the command line."""
    split = [pair.partition("=") for pair in pairs or []]
    if any(not (own and wanted) for own, _, wanted in split):
        raise typer.BadParameter("write OWN=FLEET, such as spindle_temp=spindle_motor_temp", param_hint="--rename")
    return {own: wanted for own, _, wanted in split}


@app.command()
def train(
    fleet: Annotated[Path, typer.Argument(help="Folder made by crossfeed fleet generate.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run.")],
    size: Annotated[
        Literal["tiny", "compact", "base", "medium", "large"], typer.Option(help="Size of the network.")
    ] = "compact",
    steps: Annotated[int, typer.Option(min=1, help="Batches of 256 windows.")] = 36_000,
    seed: Annotated[int, typer.Option(min=0, help="Start of the weights and order of the windows.")] = 0,
    pretrained: Annotated[Path | None, typer.Option(help="Go on from this model of many machines.")] = None,
    device: Device = "auto",
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Train one model on all machines of a fleet; the shipped model `fleet` was made so.

    Example: crossfeed fleet train fleet --out fleet-model
    """
    from crossfeed.cli.render.printing import print_result
    from crossfeed.cli.render.results import show_training
    from crossfeed.fleet.train import fleet_config, train_fleet

    result = train_fleet(
        fleet, out, fleet_config(size, steps, seed), device=device, resume=resume, pretrained=pretrained
    )
    print_result(result.summary, json, lambda: show_training(result.summary, result.model))
