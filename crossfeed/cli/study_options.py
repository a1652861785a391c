"""Arguments and options that several study commands share."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(help="The study folder.")]
Engine = Annotated[str, typer.Option(help="Where runs are executed: local or ray.")]
Jobs = Annotated[int, typer.Option(min=1, help="Runs side by side.")]
Address = Annotated[str | None, typer.Option(help="Address of a Ray cluster; without it one is started here.")]
Gpus = Annotated[float, typer.Option(min=0.0, help="GPU share of a run on Ray, for example 0.25.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
