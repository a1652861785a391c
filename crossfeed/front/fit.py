"""Train a model on tables; in a folder of its own, or in one that is gone when the model is in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.adaptation.model_adaptation import Adaptation, adapt_model, fewshot_or_online
from crossfeed.evaluation.adaptation.parameters import Mode
from crossfeed.front.fitted_model import FittedModel, as_model, load
from crossfeed.front.inputs import history_of
from crossfeed.logs.align import as_table, several
from crossfeed.logs.table import Table
from crossfeed.model.model_file import FLEET, locate_model
from crossfeed.programs.motion import MotionLimits
from crossfeed.scenarios.measures import highest_by_sensor, read_limits
from crossfeed.scenarios.plan import Overrides
from crossfeed.scenarios.what_if import WhatIf
from crossfeed.scenarios.what_if import what_if as roll_forward
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
    from crossfeed.training.folder import saved_config
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


# Teach a model a new machine from a few samples of it.


def adapt(
    model: FittedModel | Path | str,
    table: Table | Path | str,
    samples: float | Sequence[float] = 0.2,
    *,
    online: bool = False,
    mode: Mode = "predictor",
    steps: int | None = None,
    rate: float = 1e-4,
    seed: int = 0,
    source: Table | Path | str | None = None,
    out: Path | str | None = None,
    device: str = "auto",
) -> FittedModel:
    """The model after learning from the beginning of each run of another machine, judged on the rows that follow.

    `samples`: the leading share of each run to learn from (0.2), or about that many rows in all (500); of several
    shares each is judged and the largest is kept. `online` learns row by row while the machine runs instead. The
    result is a model again; `adaptation` says what was gained. With `out`, models and adaptation.json are kept there.

    Examples:
        >>> import crossfeed as cf
        >>> adapted = cf.adapt("run", "b.parquet", samples=0.3, steps=1)
        >>> adapted.machines
        ('mill_a', 'mill_b')
    """
    fitted = as_model(model, device)
    found = adaptations(
        fitted, table, samples, online=online, mode=mode, steps=steps, rate=rate, seed=seed, source=source, out=out
    )
    if len(found.models) > 1:
        raise ConfigError(
            f"The table holds {len(found.models)} machines, each of which got a model of its own.",
            expected="a table of one machine",
            remedy="Adapt to each machine apart: table.select(its groups). With out, all models lie in that folder.",
        )
    if not found.models and not online and steps != 0:
        raise TableError(
            "The beginnings of the runs hold no complete window to learn from.",
            expected=f"at least {fitted.context + fitted.horizons[-1]} rows of a run to learn from",
            remedy="Give more samples, or longer runs.",
        )
    opened = next(iter(found.models.values()), fitted.opened)
    return FittedModel(opened, fitted.summary, found.result)


def adaptations(
    fitted: FittedModel, table: Table | Path | str, samples: float | Sequence[float], *, online: bool, mode: Mode,
    steps: int | None, rate: float, seed: int, source: Table | Path | str | None, out: Path | str | None,
    protocol: str = "crossfeed",
) -> Adaptation:  # fmt: skip
    """All that `adapt` finds, with one model for each machine of the table where it learns online.

    `protocol` says how few-shot learns and what it is judged by.
    """
    read = as_table(table, fitted.schema)
    given = [samples] if isinstance(samples, int | float) else list(samples)
    shares = tuple(_share(sample, read) for sample in given)
    fewshot, streaming = fewshot_or_online(shares, online, mode, steps, rate, seed, protocol)
    return adapt_model(
        fitted.opened, read, fewshot=fewshot, streaming=streaming,
        sources=[] if source is None else [as_table(source, fitted.schema, "source")],
        file=Path(table).name if isinstance(table, Path | str) else None, out=out,
    )  # fmt: skip


def _share(sample: float, table: Table) -> float:
    """A share of every run: as given, or as many rows as were asked for."""
    if 0.0 <= sample < 1.0:
        return float(sample)
    if sample >= len(table) or sample != int(sample):
        raise ConfigError(
            f"{sample:g} samples of a table of {len(table):,} rows cannot be learned from.",
            expected="a share below 1, or a whole number of rows that leaves some to judge by",
        )
    return sample / len(table)


# Compare plans from one moment: every row of each is rolled forward in sampled futures.


def what_if(
    model: FittedModel | Path | str,
    history: Any,
    plans: Any,
    *,
    session: str | None = None,
    at: float | None = None,
    seconds: float | None = None,
    samples: int = 64,
    seed: int = 0,
    limits: Mapping[str, float] | Sequence[str] = (),
    channels: Sequence[str] = (),
    overrides: Overrides | None = None,
    motion_limits: MotionLimits | None = None,
    out: Path | str | None = None,
    plot: Path | str | None = None,
    device: str = "auto",
) -> WhatIf:
    """What the machine will do under each plan, row by row, and how the plans differ in energy and peaks.

    `history` as in `FittedModel.forecast`; `plans` by name: frames, files, NC programs (`part.mpf@feed=80`) or "table"
    for what really followed. The answer has `readings` (sentences that say "cannot tell" where that is so), `plot()`,
    `to_pandas()` and the futures themselves (`paths`). `limits` ask for the chance of passing {"spindle_power": 5}.

    Examples:
        >>> import crossfeed as cf
        >>> rows = cf.Table.read("a.parquet").to_polars()[:80]
        >>> history, plan = rows[:40], rows[40:48]
        >>> slower = plan.with_columns(plan["spindle_speed"] * 0.5)
        >>> answer = cf.what_if("run", history, {"as planned": plan, "slower": slower}, samples=20)
        >>> len(answer.readings)
        1
        >>> sorted(set(answer.to_polars()["plan"]))
        ['as planned', 'slower']
    """
    fitted = as_model(model, device)
    if fitted.network.normaliser.is_placeholder:
        fitted = fitted.fitted_to(history, at)
    moment = history_of(fitted.opened, history, session, at)
    # Columns of one plan are a mapping, too.
    if not isinstance(plans, list | tuple | Mapping) or (
        isinstance(plans, Mapping) and all(np.ndim(plan) == 1 for plan in plans.values())
    ):
        plans = [plans]
    asked = dict(limits) if isinstance(limits, Mapping) else highest_by_sensor(read_limits(limits, fitted.schema))
    return roll_forward(
        fitted.opened, moment, plans, seconds=seconds,
        samples=samples, seed=seed, limits=asked, channels=channels, overrides=overrides,
        motion_limits=motion_limits, out=out, plot=plot,
    )  # fmt: skip
