"""What a model file says about itself, on a terminal."""

from typing import Any

from rich.table import Table

from crossfeed.cli.render.grid import MISSING, grid
from crossfeed.configuration import leaves
from crossfeed.progress import output


def show_model(description: dict[str, Any]) -> None:
    """Print channels, sizes, configuration, provenance and hashes."""
    console = output()
    title = f"{description['path']}: channels of the schema '{description['schema']}'"
    channels = grid(title, ["channel", "kind", "quantity", "unit", "train mean", "scale"], words=4)
    for channel in description["channels"]:
        texts = [channel[name] for name in ("name", "kind", "quantity", "unit")]
        channels.add_row(*texts, *(f"{channel[name]:.4g}" for name in ("location", "scale")))
    console.print(channels)
    provenance = dict(description["provenance"])
    run = leaves(provenance.pop("config", {}))
    parameters = description["parameters"]
    facts = {
        "parameters": {"all": f"{sum(parameters.values()):,}", **{name: f"{n:,}" for name, n in parameters.items()}},
        "model": description["config"],
        "training and data": {name: value for name, value in run.items() if name.startswith(("training.", "data."))},
        "normaliser": description["normaliser"],
        "provenance": leaves(provenance),
        "hashes": description["hashes"],
    }
    for title, values in facts.items():
        table = Table(title=title, show_header=False, title_justify="left", min_width=60)
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        for name, value in values.items():
            table.add_row(name, _text(value))
        console.print(table)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "none"
    return MISSING if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
