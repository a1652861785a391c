"""`crossfeed inspect`: what a model file says about itself."""

from pathlib import Path
from typing import Annotated

import typer


def inspect(
    model: Annotated[Path, typer.Argument(help="A model file, or the folder of a run or of an adaptation.")],
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show configuration, channels, normaliser, provenance, sizes and hashes of a model file.

    Example: crossfeed inspect run
    """
    from crossfeed.training.record.inspection import describe, print_description

    print_description(describe(model), as_json=json)
