"""What a run begins with: the shipped model that already knows machines, where that can be taken, or nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossfeed.model.locate import FLEET, locate_model

if TYPE_CHECKING:
    from crossfeed.ingest.table import Table
    from crossfeed.training.run_config import RunConfig

AUTO, NOTHING = "auto", "none"


def beginning(
    pretrained: Path | str, config: "RunConfig", tables: Sequence["Table"], saved: Mapping[str, Any] | None
) -> Path | str | None:
    """The file whose weights a run begins with; None begins with fresh ones.

    `auto` takes the shipped model for one machine at the default size, if it knows any command of that machine; the
    others are learned. A run that is resumed, whose configuration is `saved`, keeps what it began with.
    """
    if str(pretrained) == NOTHING:
        return None
    if str(pretrained) != AUTO:
        return pretrained
    if saved is not None:
        went_on = saved["training"]["initialisation"] != "scratch" and saved["data"]["normaliser"] == "frame"
        return FLEET if went_on else None
    machines = {machine for table in tables for machine in table.machines()}
    usual = _takes_the_usual_network(config)
    return FLEET if usual and len(machines) == 1 and _knows_a_command_of(tables) else None


def _takes_the_usual_network(config: "RunConfig") -> bool:
    """Whether nothing was asked for that the shipped weights could not be."""
    from crossfeed.model.sensors.config import SensorConfig
    from crossfeed.windows.split_tables import DataConfig

    return config.model == SensorConfig() and config.data.normaliser == DataConfig().normaliser


def _knows_a_command_of(tables: Sequence["Table"]) -> bool:
    from crossfeed.model.meeting import knows_a_command
    from crossfeed.model.model_file import read_model_file

    shipped = read_model_file(locate_model(FLEET)).schema
    return all(knows_a_command(shipped, table.schema) for table in tables)
