"""Train a model on tables; in a folder of its own, or in one that is gone when the model is in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crossfeed.front.beginning import AUTO, beginning
from crossfeed.front.fitted_model import FittedModel, load
from crossfeed.front.moment import as_table, several
from crossfeed.ingest.table import Table
from crossfeed.schema import canonical

SIZE, PRESET = "compact", "crossfeed"


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
        begins = beginning(pretrained, resolved, read, saved_config(folder) if resume else None)
        if begins.remark:
            console().print(begins.remark)
        result = train(
            read, resolved, folder, resume=resume, device=device, pretrained=begins.weights, tensorboard=tensorboard,
            budget=budget,
        )  # fmt: skip
        return replace(load(result.model, device), summary=result.summary)
