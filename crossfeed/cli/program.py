"""`crossfeed program`: what an NC program does, in one table."""

from pathlib import Path
from typing import Annotated

import typer


def program(file: Annotated[Path, typer.Argument(help="NC program, Siemens 840D or ISO.")]) -> None:
    """Show what an NC program does.

    Example: crossfeed program part.mpf
    """
    from crossfeed.programs.parse import read_program

    typer.echo(f"{len(read_program(file).blocks)} blocks")
