"""`crossfeed live`: a model beside a running machine, and a recorder for what it tells."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from crossfeed.live.source import Source

app = typer.Typer(
    help="Beside a running machine: watch it, record it. Read only, nothing is ever sent to it.", no_args_is_help=True
)

Address = Annotated[str, typer.Argument(help="file:LOG.csv, opc.tcp://HOST:4840, http://HOST:5000, mqtt://HOST/TOPIC.")]
MappingFile = Annotated[Path | None, typer.Option(help="What the source's names mean; `live discover` proposes one.")]
Speed = Annotated[float, typer.Option(min=0.01, help="The source is a replay that runs so many times faster.")]


def _source(address: str, mapping: Path | None) -> "Source":
    from crossfeed.live.sources import SourceOptions, open_source

    return open_source(address, SourceOptions(mapping=mapping))


@app.command()
def record(
    source: Address,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the spool; an existing one is continued.")],
    mapping: MappingFile = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds; without it, with Ctrl-C.")] = None,
    speed: Speed = 1.0,
) -> None:
    """Record everything a source tells, so that a kill at any moment loses at most the open second.

    Example: crossfeed live record file:log.csv --mapping mapping.yaml --out spool/
    """
    import asyncio
    from contextlib import suppress

    from crossfeed.live.recorder import record as run_record
    from crossfeed.progress import console

    opened, screen = _source(source, mapping), console()

    def show(counts: dict[str, float]) -> None:
        told = ", ".join(f"{value:g} {name}" for name, value in counts.items() if value or name == "samples")
        screen.print(f"\r{told}   ", end="", markup=False, soft_wrap=True)

    async def work() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await run_record(opened, out, speed=speed, on_flush=show)

    asyncio.run(work())
    screen.print(f"\nwrote {out}; make a table of it with: crossfeed live to-table {out} table.parquet", markup=False)


@app.command("to-table")
def to_table(
    spool: Annotated[Path, typer.Argument(help="A folder that `crossfeed live record` wrote.")],
    out: Annotated[Path, typer.Argument(help="The Parquet file to write; the manifest goes beside it.")],
    period: Annotated[float | None, typer.Option(help="Seconds between rows (default: as the source says).")] = None,
    machine: Annotated[str | None, typer.Option(help="Name of the machine in the table.")] = None,
) -> None:
    """Make a canonical table of a spool, by the very code that ingests logs.

    Example: crossfeed live to-table spool/ table.parquet
    """
    from crossfeed.ingest.summary import print_summary
    from crossfeed.live.to_table import spool_to_table
    from crossfeed.progress import output

    if out.suffix.lower() != ".parquet":
        raise typer.BadParameter(f"{out} must end in .parquet", param_hint="OUT")
    table = spool_to_table(spool, period=period, machine=machine)
    table.write(out)
    screen = output()
    print_summary(table.manifest, screen)
    screen.print(f"wrote {out}", markup=False)
