"""`crossfeed simulate`: machines whose physics we know write logs in the formats of real ones."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from crossfeed.cli.options import Json

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
    from crossfeed.machines.simulated.mapped_log import LOG, MAPPING
    from crossfeed.machines.simulated.program_log import simulate_program
    from crossfeed.machines.simulated.random_fleet import simulate_fleet
    from crossfeed.machines.simulated.study_pair import simulate_pair
    from crossfeed.progress import output

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

    from crossfeed.live.simulated.serve import SimulatedFeed, make_server, read_fault, serve

    for library in ("asyncua", "amqtt", "transitions"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    feed = SimulatedFeed(machine, program, seed=seed)
    told = [read_fault(one) for one in faults]

    def ready(address: str) -> None:
        faster = f" --speed {speed:g}" if speed != 1.0 else ""
        typer.echo(f"{feed.name} works on {feed.program} behind {address}; Ctrl-C ends it.")
        typer.echo(f"Watch it from another terminal: crossfeed live watch MODEL {address}{faster}")

    asyncio.run(serve(feed, make_server(protocol, feed, port), speed=speed, faults=told, on_ready=ready))
