"""The command line: one thin typer app over the rooms. Each command imports its room only when it runs."""

import sys
from typing import Annotated

import typer

from crossfeed.cli import (
    adapt,
    audit,
    bench,
    compare,
    control,
    curve,
    data,
    demo,
    evaluate,
    export,
    fleet,
    forecast,
    ingest,
    inspect,
    live,
    program,
    report,
    reproduce,
    serve,
    simulate,
    study,
    train,
    what_if,
    windows,
)
from crossfeed.cli.group import ERROR, STOPPED, CommandGroup

app = typer.Typer(
    name="crossfeed",
    cls=CommandGroup,
    help="A command-conditioned world model for machine tools that keeps working on machines with other sensors.",
    epilog="Own logs, in five steps: data template --from LOGS > mapping.yaml, then ingest table, audit, train, "
    "evaluate. Without any training: evaluate fleet, forecast fleet."
    "\n\nExit codes: 0 done, 1 something was found, 2 an error, 130 stopped with Ctrl-C.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress bars, no remarks; also after the command.")
    ] = False,
) -> None:
    """Options that stand before every command."""
    from crossfeed import __version__
    from crossfeed.progress import be_quiet

    be_quiet(quiet)
    if version:
        typer.echo(f"crossfeed {__version__}")
        raise typer.Exit


START, DATA, MODEL, RESEARCH = "Start here", "Logs become tables", "The model and its answers", "Research"
app.command(rich_help_panel=START)(demo.demo)
app.command(rich_help_panel=DATA)(program.program)
app.command(rich_help_panel=DATA)(simulate.simulate)
app.add_typer(data.data, name="data", rich_help_panel=DATA)
app.command(rich_help_panel=DATA)(ingest.ingest)
app.command(rich_help_panel=DATA)(audit.audit)
app.command(rich_help_panel=DATA)(windows.windows)
app.command(rich_help_panel=MODEL)(train.train)
app.command(rich_help_panel=MODEL)(inspect.inspect)
app.command(rich_help_panel=MODEL)(evaluate.evaluate)
app.command(rich_help_panel=MODEL)(adapt.adapt)
app.command(rich_help_panel=MODEL)(forecast.forecast)
app.command("what-if", rich_help_panel=MODEL)(what_if.what_if)
app.add_typer(live.app, name="live", rich_help_panel=MODEL)
app.command(rich_help_panel=MODEL)(serve.serve)
app.command(rich_help_panel=MODEL)(export.export)
app.add_typer(control.app, name="control", rich_help_panel=MODEL)
app.add_typer(fleet.app, name="fleet", rich_help_panel=RESEARCH)
app.command(rich_help_panel=RESEARCH)(compare.compare)
app.command(rich_help_panel=RESEARCH)(curve.curve)
app.add_typer(study.app, name="study", rich_help_panel=RESEARCH)
app.command(rich_help_panel=RESEARCH)(report.report)
app.command(rich_help_panel=RESEARCH)(reproduce.reproduce)
app.command(rich_help_panel=RESEARCH)(bench.bench)


def main() -> None:
    """Run the app; an error of ours is printed without a traceback and ends with exit code 2."""
    from crossfeed.errors import CrossfeedError

    try:
        app()
    except CrossfeedError as error:
        from rich.console import Console

        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {_escape(str(error))}")
        sys.exit(ERROR)
    except KeyboardInterrupt:  # before a command began
        sys.exit(STOPPED)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
