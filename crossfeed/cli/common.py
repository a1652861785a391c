"""What commands share: arguments and options, `--quiet` wherever it stands, the end after Ctrl-C, a quick start."""

import atexit
import ctypes
import gc
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from crossfeed.processes import in_own_command

Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<number>.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
MachineName = Annotated[str | None, typer.Option(help="Name of the machine in the table.")]
Model = Annotated[Path, typer.Argument(help="A model file, the folder of a run, or fleet: the shipped one.")]
MotionFile = Annotated[Path | None, typer.Option(help="YAML file with the machine's motion limits.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
SplitBy = Annotated[Literal["session", "program", "run", "day"], typer.Option(help="What stays on one side.")]

# The moment of a forecast, and what is asked about it.
History = Annotated[Path, typer.Option(help="Table with the rows before the forecast.")]
Session = Annotated[str | None, typer.Option(help="Session of the history; the last one if left out.")]
At = Annotated[float | None, typer.Option(help="Seconds after the session's first row; its end if left out.")]
Commands = Annotated[
    str, typer.Option("--commands", "-c", help="CSV, Parquet, NC program, or 'table': what really followed.")
]
Channels = Annotated[str, typer.Option(help="Sensors in the figure, with commas in between.")]
Plot = Annotated[Path | None, typer.Option(help="Write the figure as PNG, SVG or PDF.")]

# What learns under equal conditions.
ResultsFolder = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; run again with it to go on.")]
TrainingSeeds = Annotated[int, typer.Option(help="Training seeds for each model that has randomness.")]
Processes = Annotated[int, typer.Option(help="Processes side by side.")]

# A study and where its runs are executed.
Folder = Annotated[Path, typer.Argument(help="The study folder.")]
SourceTables = Annotated[list[Path], typer.Option(help="Source table (repeatable).")]
StudySize = Annotated[str, typer.Option(help="tiny, compact, base, medium or large.")]
SharedSensors = Annotated[list[str] | None, typer.Option(help="Without a target: a sensor it would have.")]
Engine = Annotated[str, typer.Option(help="Where runs are executed: local or ray.")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs side by side.")]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster; without it one is started here.")]
Gpus = Annotated[float, typer.Option(min=0.0, help="GPU share of a run on Ray, for example 0.25.")]


def parquet_file(out: Path) -> Path:
    """A name under which a table can be written."""
    if out.suffix.lower() != ".parquet":
        raise typer.BadParameter(f"{out} must end in .parquet", param_hint="OUT")
    return out


TableFile = Annotated[
    Path, typer.Argument(help="The Parquet file to write; the manifest goes beside it.", callback=parquet_file)
]


# Exit codes: 0 fine, 1 a finding (audit violation, changed study, no-number model), 2 an error, 130 Ctrl-C.
ERROR, STOPPED = 2, 130
_QUIET = ("--quiet", "-q")
# Commands that find their unfinished work again when they are simply repeated.
_REPEATED = (
    "demo",
    "compare",
    "data fetch",
    "fleet generate",
    "study search",
    "study confirm",
    "study ready",
    "study unseal",
)


class CommandGroup(TyperGroup):
    """The root of the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let `crossfeed train --quiet` mean `crossfeed --quiet train`."""
        end = args.index("--") if "--" in args else len(args)
        moved = [word for word in args[:end] if word in _QUIET]
        kept = [word for word in args[:end] if word not in _QUIET]
        return super().parse_args(ctx, [*moved[:1], *kept, *args[end:]])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; after Ctrl-C everything on disk is whole, and the way on is said."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo(f"\nStopped. {how_to_go_on(sys.argv[1:])}", err=True)
            raise typer.Exit(STOPPED) from None


def how_to_go_on(words: list[str]) -> str:
    """How to go on after a stop, in words that can be copied."""
    command = " ".join(word for word in words[:3] if not word.startswith("-"))
    if command.startswith("train"):
        again = words if "--resume" in words else [*words, "--resume"]
        return f"Finished epochs are kept; go on with: crossfeed {shlex.join(again)}"
    if command.startswith(_REPEATED):
        return f"What is finished is kept; go on with the same command: crossfeed {shlex.join(words)}"
    return "Nothing was left half written; run the command again."


# What glibc calls the two limits: from where on arrays get pages of their own, and freed ones go back to the system.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1


@contextmanager
def quick_start() -> Iterator[None]:
    """Imports inside it are not interrupted: what is imported stays, so nobody needs to look through it for garbage."""
    if in_own_command():
        _keep_freed_memory()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.freeze()
            gc.enable()


@contextmanager
def quick_end() -> Iterator[None]:
    """The exit code of the block is that of the process, which nobody takes apart: with torch that takes 0.15 s."""
    codes: list[int] = []
    # What is registered first is called last, when threads and children have ended and files are closed.
    atexit.register(_leave, codes)
    try:
        yield
    except SystemExit as end:
        if isinstance(end.code, int):
            codes.append(end.code)
        raise


def _leave(codes: list[int]) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody listens any more, which Python's own end turns into an exit code
        return
    for code in codes:
        os._exit(code)


def _keep_freed_memory() -> None:
    """Let one batch use the memory of the one before: fetched anew, page by page, it takes a tenth of an evaluation."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # another system, or another C library
        return
    mallopt(_MMAP_THRESHOLD, 1 << 30)
    mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
