"""Train a model on tables; in a folder of its own, or in one that is gone when the model is in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from crossfeed.front.fitted_model import FittedModel, load
from crossfeed.ingest.align import as_table, several
from crossfeed.ingest.table import Table
from crossfeed.model.locate import FLEET, locate_model
from crossfeed.schema import canonical

if TYPE_CHECKING:
    from crossfeed.training.run_config import RunConfig

SIZE, PRESET = "compact", "crossfeed"
AUTO, NOTHING = "auto", "none"


def fit(
    tables: Table | Path | str | Sequence[Table | Path | str],
    size: str | None = SIZE,
    preset: str | None = PRESET,
    out: Path | str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    config: Path | str | None = None,
    pretrained: Path | str = AUTO,
    device: str = "auto",
    resume: bool = False,
    tensorboard: bool = False,
    budget: str = "normal",
) -> FittedModel:
    """Train a world model on one table or several, with a bar that shows the time left, and return it.

    `size`: tiny, compact, base, medium or large. `settings` change single ones, such as {"training.seed": 1}; `config`
    is a YAML file of them. `budget`: quick trains a quarter as long as normal, thorough three times. With `out` the run
    is kept there (model, history, summary) and can go on with `resume`. It begins with `fleet`, the shipped model that
    already knows machines, where there is one machine, size and settings are the usual ones, and `fleet` knows one of
    its commands and forecasts it better than the last value does; `pretrained="none"` begins with fresh weights.

    Examples:
        >>> import crossfeed as cf
        >>> table = cf.Table.read("a.parquet")
        >>> brief = {"training.steps_per_epoch": 2, "training.finetune_epochs": 1, "training.batch_size": 8}
        >>> model = cf.fit(table, size="tiny", settings=brief)
        >>> model.horizons
        (1, 2, 4, 8, 16)
    """
    from crossfeed.configuration import override
    from crossfeed.progress import console
    from crossfeed.training.record.folder import saved_config
    from crossfeed.training.run import train
    from crossfeed.training.run_config import resolve_config

    read = [as_table(table, canonical()) for table in several(tables)]
    if resume and (size, preset) == (SIZE, PRESET):
        size = preset = None  # the run says itself what it is
    with TemporaryDirectory(prefix="crossfeed-") as temporary:
        folder = Path(temporary) / "run" if out is None else Path(out)
        file = None if config is None else Path(config)
        resolved = resolve_config(preset, size, file, continued=folder if resume else None)
        resolved = override(resolved, settings or {}, "The argument settings")
        chosen = choose_pretrained(pretrained, resolved, read, saved_config(folder) if resume else None)
        if chosen.remark:
            console().print(chosen.remark)
        result = train(
            read, resolved, folder, resume=resume, device=device, pretrained=chosen.weights, tensorboard=tensorboard,
            budget=budget,
        )  # fmt: skip
        return replace(load(result.model, device), summary=result.summary)


class Pretrained(NamedTuple):
    """The file whose weights a run begins with, None for fresh ones, and what a person is told about the choice."""

    weights: Path | str | None
    remark: str = ""


def choose_pretrained(
    pretrained: Path | str, config: "RunConfig", tables: Sequence[Table], saved: Mapping[str, Any] | None
) -> Pretrained:
    """What a run begins with.

    `auto` takes the shipped model for one machine at the default size, if it knows any command of that machine and
    forecasts its validation windows better than their last value; other commands are learned. A run that is resumed,
    whose configuration is `saved`, keeps what it began with.
    """
    from crossfeed.model.model_file import read_model_file
    from crossfeed.model.new_machine import shares_a_command
    from crossfeed.model.sensors.config import SensorConfig
    from crossfeed.training.pretrained import beats_last_value
    from crossfeed.windows.split_tables import DataConfig

    if str(pretrained) != AUTO:
        return Pretrained(None if str(pretrained) == NOTHING else pretrained)
    if saved is not None:
        went_on = saved["training"]["initialisation"] != "scratch" and saved["data"]["normaliser"] == "frame"
        return Pretrained(FLEET if went_on else None)
    machines = {machine for table in tables for machine in table.machines()}
    usual_network = config.model == SensorConfig() and config.data.normaliser == DataConfig().normaliser
    if not usual_network or len(machines) != 1:
        return Pretrained(None)
    shipped = read_model_file(locate_model(FLEET))
    if not all(shares_a_command(shipped.schema, table.schema) for table in tables):
        return Pretrained(None, f"begins with fresh weights: {FLEET} knows none of the commands")
    if not beats_last_value(shipped, tables, config):
        return Pretrained(None, f"begins with fresh weights: {FLEET} expects less of this log than its last value does")
    remark = f"begins with {FLEET}, which already knows machines (--pretrained none: with fresh weights)"
    return Pretrained(FLEET, remark)
