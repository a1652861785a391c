"""The command line: one thin typer app over the rooms. Each command imports its room only when it runs."""

import sys
from typing import Annotated

import typer

from crossfeed.cli import control, demo, evaluate, live, logs, serve, simulate, study, train, what_if
from crossfeed.cli.common import ERROR, STOPPED, CommandGroup

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
    from crossfeed.files import __version__
    from crossfeed.progress import be_quiet

    be_quiet(quiet)
    if version:
        typer.echo(f"crossfeed {__version__}")
        raise typer.Exit


PANELS = {
    "Start here": (demo.demo,),
    "Logs become tables": (
        logs.program, simulate.simulate, logs.app, logs.ingest, logs.audit, logs.windows,
    ),
    "The model and its answers": (
        train.train, train.inspect, evaluate.evaluate, train.adapt, what_if.forecast, what_if.what_if, live.app,
        serve.serve, serve.export, control.app,
    ),
    "Research": (
        demo.paper, simulate.app, evaluate.compare, evaluate.curve, study.app, evaluate.report, train.reproduce,
    ),
}  # fmt: skip
for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(command)


def main() -> None:
    """Run the app; an error of ours is printed without a traceback and ends with exit code 2."""
    from crossfeed.errors import CrossfeedError

    try:
        app()
    except CrossfeedError as error:
        from rich.console import Console
        from rich.markup import escape

        Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(str(error))}")
        sys.exit(ERROR)
    except KeyboardInterrupt:  # before a command began
        sys.exit(STOPPED)
