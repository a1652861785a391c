"""`crossfeed simulate` and `fleet`: machines whose physics we know write logs, one, two or thousands."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.common import Device, Json, Resume

Protocol = Literal["opcua", "mtconnect", "mqtt", "sparkplug"]


def simulate(
    out: Annotated[Path | None, typer.Argument(help="Folder for the logs; none with --serve.")] = None,
    pair: Annotated[
        Literal["spinner"] | None, typer.Option(help="Two machines in their native log formats (the default).")
    ] = None,
    scale: Annotated[Literal["demo", "full"], typer.Option(help="Size of the pair; full is that of the real logs.")] = (
        "demo"
    ),
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")] = 0,
    plots: Annotated[bool, typer.Option("--plots", help="Draw every channel over a program: OUT/sheet.png.")] = False,
    measured_commands: Annotated[
        bool, typer.Option("--measured-commands", help="Log measured speeds and feeds where set-points belong.")
    ] = False,
    fleet: Annotated[int | None, typer.Option(min=1, help="This many random machines, each with a mapping.")] = None,
    cycles: Annotated[int | None, typer.Option(help="For --pair: another length of the 2 ms log.")] = None,
    program: Annotated[str | None, typer.Option(help="Run this NC file, or bundled:NAME, on one machine.")] = None,
    machine: Annotated[
        str, typer.Option(help="For --program and --serve: spinner_620, spinner_630, random:7.")
    ] = "spinner_620",
    material: Annotated[str | None, typer.Option(help="For --program: aluminium, steel or pla.")] = None,
    stock_top: Annotated[float, typer.Option(help="For --program: z of the stock's top face in mm.")] = 0.0,
    serve: Annotated[
        Protocol | None,
        typer.Option(help="Run the machine live behind a real server on the loopback address, until Ctrl-C."),
    ] = None,
    speed: Annotated[float, typer.Option(min=0.1, help="For --serve: so many times faster than real time.")] = 1.0,
    fault: Annotated[
        list[str] | None,
        typer.Option(help="For --serve: outage=60, late, doubled, out-of-order, skew=3, dead-node; can be repeated."),
    ] = None,
    port: Annotated[int, typer.Option(help="For --serve: the port, 0 for the protocol's usual one.")] = 0,
    json: Json = False,
) -> None:
    """Simulate machines at work and write their logs, or serve one of them live.

    Examples: crossfeed simulate logs --pair spinner --scale demo --seed 0 --plots

    crossfeed simulate part --program part.mpf --machine spinner_630 --material steel

    crossfeed simulate --serve opcua --speed 10 --fault outage=60
    """
    if serve is not None:
        _serve(serve, machine, program or "bundled:face_pocket", seed, speed, fault or [], port)
        return
    if out is None:
        raise typer.BadParameter("name a folder for the logs, or --serve a protocol", param_hint="OUT")
    if sum(choice is not None for choice in (pair, fleet, program)) > 1:
        raise typer.BadParameter("choose one of --pair, --fleet and --program")
    from crossfeed.cli.render.inputs import show_simulated
    from crossfeed.cli.render.printing import next_step, print_json
    from crossfeed.progress import output
    from crossfeed.sim.simulate import LOG, MAPPING, simulate_fleet, simulate_pair, simulate_program

    if program is not None:
        summaries = [simulate_program(out, program, machine, material, seed, stock_top)]
    elif fleet is not None:
        summaries = list(simulate_fleet(out, fleet, seed))
    else:
        summaries = list(simulate_pair(out, scale, seed, measured_commands, plots, cycles))
    if json:
        print_json(summaries)
        return
    show_simulated(summaries)
    if plots and program is None and fleet is None:
        output().print(f"wrote {out / 'sheet.png'}", markup=False)
    if program is None and fleet is None:
        next_step("ingest", "thws", out / "thws", "source.parquet")
        next_step("ingest", "joanneum", out / "joanneum", "target.parquet")
        return
    place = out if fleet is None else out / summaries[0].machine
    next_step("ingest", "table", place / LOG, f"{place.name}.parquet", "--mapping", place / MAPPING)


def _serve(
    protocol: Protocol, machine: str, program: str, seed: int, speed: float, faults: list[str], port: int
) -> None:
    """Run a machine behind a server until Ctrl-C."""
    import asyncio
    import logging

    from crossfeed.sim.servers.serve import SimulatedFeed, make_server, read_fault, serve

    for library in ("asyncua", "amqtt", "transitions"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    feed = SimulatedFeed(machine, program, seed=seed)
    told = [read_fault(one) for one in faults]

    def ready(address: str) -> None:
        faster = f" --speed {speed:g}" if speed != 1.0 else ""
        typer.echo(f"{feed.name} works on {feed.program} behind {address}; Ctrl-C ends it.")
        typer.echo(f"Watch it from another terminal: crossfeed live watch MODEL {address}{faster}")

    asyncio.run(serve(feed, make_server(protocol, feed, port), speed=speed, faults=told, on_ready=ready))


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
    from crossfeed.sim.factory.shards import FleetPlan, generate

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
    from crossfeed.logs.table import Table
    from crossfeed.sim.factory.describe import describe

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
    from crossfeed.logs.table import Table
    from crossfeed.sim.factory.compare import compare_with_real

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
    from crossfeed.sim.factory.shards import fleet_config, train_fleet

    result = train_fleet(
        fleet, out, fleet_config(size, steps, seed), device=device, resume=resume, pretrained=pretrained
    )
    print_result(result.summary, json, lambda: show_training(result.summary, result.model))
