"""`crossfeed inspect`: what a model file says about itself."""

from pathlib import Path
from typing import Annotated

import typer

from crossfeed.cli.options import Json


def inspect(
    model: Annotated[Path, typer.Argument(help="A model file, or the folder of a run or of an adaptation.")],
    json: Json = False,
) -> None:
    """Show configuration, channels, normaliser, provenance, sizes and hashes of a model file.

    Example: crossfeed inspect run
    """
    from crossfeed.cli.render.inputs import show_model
    from crossfeed.cli.render.printing import print_result
    from crossfeed.training.record.inspection import describe

    description = describe(model)
    print_result(description, json, lambda: show_model(description))
