"""`crossfeed live`: a model beside a running machine, and a recorder for what it tells."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossfeed.cli.common import MachineName, Model, MotionFile, TableFile

if TYPE_CHECKING:
    from rich.console import Group

    from crossfeed.live.monitor import Monitor
    from crossfeed.live.open_source import SourceOptions
    from crossfeed.live.snapshot import Snapshot


app = typer.Typer(
    name="live",
    help="Beside a running machine: watch it, record it. Read only, nothing is ever sent to it.",
    no_args_is_help=True,
)

Address = Annotated[
    str, typer.Argument(help="A growing LOG.csv, opc.tcp://HOST:4840, http://HOST:5000, mqtt://HOST/TOPIC.")
]
MappingFile = Annotated[Path | None, typer.Option(help="What the source's names mean; `live discover` proposes one.")]
Speed = Annotated[float, typer.Option(min=0.01, help="The source is a replay that runs so many times faster.")]
Seconds = Annotated[float | None, typer.Option(help="Stop after so many seconds; without it, with Ctrl-C.")]
Policy = Annotated[str | None, typer.Option(help="OPC UA: Basic256Sha256 or Aes256Sha256RsaPss.")]
Certificate = Annotated[
    Path | None, typer.Option(help="OPC UA: our own certificate; `crossfeed live certificate` makes one.")
]
Key = Annotated[Path | None, typer.Option(help="OPC UA: the private key of our certificate.")]
Trusted = Annotated[Path | None, typer.Option(help="OPC UA: folder with the certificates that are trusted.")]
Login = Annotated[
    Path | None, typer.Option(help="YAML with user and password, mode 600; or CROSSFEED_LIVE_USER and _PASSWORD.")
]


def source_options(
    mapping: Path | None, policy: str | None, certificate: Path | None, key: Path | None, trust: Path | None,
    credentials: Path | None,
) -> "SourceOptions":  # fmt: skip
    """What an address does not say; `crossfeed serve` asks for the same under names that begin with live."""
    import logging

    from crossfeed.live.open_source import SourceOptions, read_credentials, read_security

    # Lost connections are told in our own words; the library's tracebacks would hide them.
    logging.getLogger("asyncua").setLevel(logging.CRITICAL)
    security = read_security(policy, certificate, key, trust)
    return SourceOptions(mapping=mapping, security=security, credentials=read_credentials(credentials))


@app.command()
def watch(
    model: Model,
    source: Address,
    mapping: MappingFile = None,
    programs: Annotated[
        Path | None, typer.Option(help="Folder with the NC programs: the running one becomes the plan.")
    ] = None,
    limits: MotionFile = None,
    learn: Annotated[
        Path | None, typer.Option(help="Learn while watching; the journal and the learned model go into this folder.")
    ] = None,
    seconds: Seconds = None,
    speed: Speed = 1.0,
    json: Annotated[bool, typer.Option("--json", help="Print each snapshot as one line of JSON.")] = False,
    security: Policy = None,
    certificate: Certificate = None,
    key: Key = None,
    trust: Trusted = None,
    credentials: Login = None,
) -> None:
    """Watch a machine in the terminal: history, the next seconds, and whether the forecast may be believed.

    Example: crossfeed live watch run/ opc.tcp://127.0.0.1:4840 --programs nc/
    """
    from crossfeed.evaluation.opened_model import open_model
    from crossfeed.live.monitor import Monitor
    from crossfeed.live.open_source import open_source
    from crossfeed.programs.motion import read_motion_limits

    options = source_options(mapping, security, certificate, key, trust, credentials)
    opened = open_model(model, "cpu")
    learner = None
    if learn is not None:
        from crossfeed.live.learning import LiveLearner

        learner = LiveLearner(opened, learn)
    monitor = Monitor(
        opened, open_source(source, options), programs, speed=speed, learner=learner,
        limits=read_motion_limits(limits) if limits else None,
    )  # fmt: skip
    with suppress(KeyboardInterrupt):  # the way to end it
        asyncio.run(show(monitor, seconds, json))


@app.command()
def record(
    source: Address,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the spool; an existing one is continued.")],
    mapping: MappingFile = None,
    seconds: Seconds = None,
    speed: Speed = 1.0,
    security: Policy = None,
    certificate: Certificate = None,
    key: Key = None,
    trust: Trusted = None,
    credentials: Login = None,
) -> None:
    """Record everything a source tells, so that a kill at any moment loses at most the open second.

    Example: crossfeed live record file:log.csv --mapping mapping.yaml --out spool/
    """
    from crossfeed.cli.render.printing import next_step
    from crossfeed.live.open_source import open_source
    from crossfeed.live.recorder import record as run_record
    from crossfeed.progress import console

    opened = open_source(source, source_options(mapping, security, certificate, key, trust, credentials))
    screen = console()
    until = "Ctrl-C ends it" if seconds is None else f"{seconds:g} s, or until Ctrl-C"
    screen.print(f"recording {source} into {out}; {until}", markup=False, soft_wrap=True)

    def show(counts: dict[str, float]) -> None:
        if screen.is_terminal:
            counted = ", ".join(f"{value:g} {name}" for name, value in counts.items() if value or name == "samples")
            screen.print(f"\r{counted}   ", end="", markup=False, soft_wrap=True)

    async def work() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await run_record(opened, out, speed=speed, on_flush=show)

    with suppress(KeyboardInterrupt):
        asyncio.run(work())
    screen.print(f"\nwrote {out}" if screen.is_terminal else f"wrote {out}", markup=False, soft_wrap=True)
    next_step("live", "to-table", out, "table.parquet")


@app.command("to-table")
def to_table(
    spool: Annotated[Path, typer.Argument(help="A folder that `crossfeed live record` wrote.")],
    out: TableFile,
    period: Annotated[float | None, typer.Option(help="Seconds between rows (default: as the source says).")] = None,
    machine: MachineName = None,
) -> None:
    """Make a canonical table of a spool, by the very code that ingests logs.

    Example: crossfeed live to-table spool/ table.parquet
    """
    from crossfeed.cli.render.inputs import show_manifest
    from crossfeed.live.recorder import spool_to_table

    table = spool_to_table(spool, period=period, machine=machine)
    table.write(out)
    show_manifest(table.manifest, out)


@app.command()
def discover(
    source: Address,
    security: Policy = None,
    certificate: Certificate = None,
    key: Key = None,
    trust: Trusted = None,
    credentials: Login = None,
) -> None:
    """Look at a source and print a proposed mapping; check it, then give it to watch and record with --mapping.

    Example: crossfeed live discover opc.tcp://127.0.0.1:4840 > mapping.yaml
    """
    from crossfeed.live.open_source import discover_mapping

    options = source_options(None, security, certificate, key, trust, credentials)
    typer.echo(asyncio.run(discover_mapping(source, options)), nl=False)


@app.command()
def certificate(
    folder: Annotated[Path, typer.Argument(help="Folder for certificate.der and key.pem.")],
) -> None:
    """Make a certificate of our own for secured OPC UA connections; the server's operator has to trust it.

    Example: crossfeed live certificate pki/
    """
    from crossfeed.live.open_source import make_certificate

    made, private = asyncio.run(make_certificate(folder))
    typer.echo(f"wrote {made}\nwrote {private}")


_COLOURS = {"green": "green", "amber": "yellow", "red": "red"}
_BARS = "▁▂▃▄▅▆▇█"
_DRAWN_ROWS, _FEW_ROWS = 30, 8
_WIDE = 145  # columns of a terminal that hold every line of the table unbroken


async def show(monitor: "Monitor", seconds: float | None, as_json: bool) -> None:
    """Draw until Ctrl-C, the end of the source, or so many seconds; an error of the source comes through."""
    running = asyncio.create_task(monitor.run())
    drawing = asyncio.create_task(_print_lines(monitor) if as_json else _draw(monitor))
    await asyncio.wait({running, drawing}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finished = [task for task in (running, drawing) if task.done()]
    for task in (drawing, running):
        task.cancel()
        with suppress(asyncio.CancelledError):
            if task not in finished:
                await task
    for task in finished:
        task.result()


async def _print_lines(monitor: "Monitor") -> None:
    from json import dumps

    async for snapshot in monitor.updates():
        print(dumps(snapshot.to_dict(), ensure_ascii=False), flush=True)


async def _draw(monitor: "Monitor") -> None:
    from rich.live import Live

    from crossfeed.progress import output

    screen = output()
    with Live(picture(monitor.snapshot(), screen.width), console=screen, refresh_per_second=4, transient=False) as live:
        async for snapshot in monitor.updates():
            live.update(picture(snapshot, screen.width))


def picture(snapshot: "Snapshot", width: int = _WIDE) -> "Group":
    """A snapshot as text: the verdict, a line for each sensor, the plan, what happened to the connection.

    On a narrow terminal the past is shorter and the first horizon is left out: a line that wraps costs two sensors.
    """
    from rich.console import Group
    from rich.markup import escape

    from crossfeed.show.formats import rich_table
    from crossfeed.show.tables import plain_table, significant

    last, rows = max(len(snapshot.horizons) - 1, 0), _DRAWN_ROWS if width >= _WIDE else _FEW_ROWS
    slots = sorted({0, last}) if width >= _WIDE else [last]
    ahead = [f"in {snapshot.horizons[slot] * (snapshot.period or 1.0):g} s" for slot in slots]
    heads, rows_shown, colours = ["", "sensor", "last rows", "now", *ahead, "may it be believed"], [], []
    for name, light in snapshot.lights.items():
        values = snapshot.recent.sensors.get(name, ())[-rows:]
        now = values[-1] if values else None
        said = snapshot.forecast.get(name)
        told = [
            f"{significant(said.median[slot])} ({significant(said.low[slot])} to {significant(said.high[slot])})"
            if said
            else ""
            for slot in slots
        ]
        shown = "absent" if now is None else f"{significant(now)} {snapshot.units[name]}"
        rows_shown.append(["●", name, _bars(values), shown, *told, light.sentence])
        colours.append(_COLOURS[light.colour])
    table = rich_table(plain_table("", heads, rows_shown, words=len(heads)), width, marks=colours)
    head = f"[bold]{escape(snapshot.machine or snapshot.source)}[/]  {snapshot.clock:%H:%M:%S} UTC"
    if snapshot.row_age is not None:
        head += f"  newest row {snapshot.row_age:.1f} s old"
    verdict = f"[{_COLOURS[snapshot.verdict.colour]}]{escape(snapshot.verdict.sentence)}[/]"
    counts = snapshot.counters
    told_counts = ", ".join(
        f"{getattr(counts, name):,} {name}"
        for name in ("rows", "samples", "gaps", "late", "dropped", "doubled", "reconnects", "restarts")
        if getattr(counts, name) or name == "rows"
    )
    learning = [f"learning: {escape(snapshot.learning)}"] if snapshot.learning else []
    newest = [*learning, *(escape(notice) for notice in snapshot.notices[:3])]
    return Group(head, verdict, table, f"plan: {escape(snapshot.plan.sentence)}", told_counts, *newest)


def _bars(values: "tuple[float | None, ...]") -> str:
    """The last values as a row of little bars; a dot where nothing is known."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, span = min(known), max(known) - min(known)
    return "".join(
        "·" if value is None else _BARS[int((value - low) / span * (len(_BARS) - 1)) if span else 0] for value in values
    )
