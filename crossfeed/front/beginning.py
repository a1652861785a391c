"""What a run begins with: the shipped model that already knows machines, where that can be taken, or nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crossfeed.model.locate import FLEET, locate_model

if TYPE_CHECKING:
    from crossfeed.ingest.table import Table
    from crossfeed.training.run_config import RunConfig

AUTO, NOTHING = "auto", "none"


class Beginning(NamedTuple):
    """The file whose weights a run begins with, None for fresh ones, and what a person is told about it."""

    weights: Path | str | None
    remark: str = ""


def beginning(
    pretrained: Path | str, config: "RunConfig", tables: Sequence["Table"], saved: Mapping[str, Any] | None
) -> Beginning:
    """What a run begins with.

    `auto` takes the shipped model for one machine at the default size, if it knows any command of that machine and
    forecasts its validation windows better than their last value; other commands are learned. A run that is resumed,
    whose configuration is `saved`, keeps what it began with.
    """
    if str(pretrained) == NOTHING:
        return Beginning(None)
    if str(pretrained) != AUTO:
        return Beginning(pretrained)
    if saved is not None:
        went_on = saved["training"]["initialisation"] != "scratch" and saved["data"]["normaliser"] == "frame"
        return Beginning(FLEET if went_on else None)
    machines = {machine for table in tables for machine in table.machines()}
    if not (_takes_the_usual_network(config) and len(machines) == 1):
        return Beginning(None)
    return _with_the_shipped_model(config, tables)


def _takes_the_usual_network(config: "RunConfig") -> bool:
    """Whether nothing was asked for that the shipped weights could not be."""
    from crossfeed.model.sensors.config import SensorConfig
    from crossfeed.windows.split_tables import DataConfig

    return config.model == SensorConfig() and config.data.normaliser == DataConfig().normaliser


def _with_the_shipped_model(config: "RunConfig", tables: Sequence["Table"]) -> Beginning:
    """With the shipped model where it knows something about the machine."""
    from crossfeed.model.model_file import read_model_file
    from crossfeed.model.new_machine import shares_a_command
    from crossfeed.training.worth_beginning import beats_last_value

    shipped = read_model_file(locate_model(FLEET))
    if not all(shares_a_command(shipped.schema, table.schema) for table in tables):
        return Beginning(None, f"begins with fresh weights: {FLEET} knows none of the commands")
    if not beats_last_value(shipped, tables, config):
        return Beginning(None, f"begins with fresh weights: {FLEET} expects less of this log than its last value does")
    return Beginning(
        FLEET, f"begins with {FLEET}, which already knows machines (--pretrained none: with fresh weights)"
    )
