"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

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
