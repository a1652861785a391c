"""A model that was trained, adapted or read from a file: it forecasts, compares plans, says what it is, is kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.evaluation.opened_model import OpenedModel, as_opened, open_model
from crossfeed.front.inputs import history_of
from crossfeed.logs.align import as_table
from crossfeed.model.forecast import Forecast, Shown, shown_commands
from crossfeed.model.model_file import MODEL
from crossfeed.model.world_model import WorldModel
from crossfeed.programs.motion import MotionLimits
from crossfeed.scenarios.measures import highest_by_sensor, read_limits, warnings_about, warnings_of
from crossfeed.scenarios.plan import Overrides, read_plans
from crossfeed.scenarios.result import WhatIf
from crossfeed.scenarios.what_if import what_if as roll_forward
from crossfeed.schema import Schema
from crossfeed.show.tables import ResultTable, ShownByTables, named, plain_table
from crossfeed.windows.frame import FIRST_SHARE

if TYPE_CHECKING:
    from crossfeed.evaluation.adaptation.result import AdaptationResult

_SHOWN_ROWS = 60


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel(ShownByTables):
    """A world model with its origin.

    `summary` is what training found, `adaptation` what adapting did; neither is known of a model from a file.
    """

    opened: OpenedModel
    summary: Mapping[str, Any] = field(default_factory=dict)
    adaptation: "AdaptationResult | None" = None

    @property
    def network(self) -> WorldModel:
        """The network itself, for whoever wants tensors."""
        return self.opened.model

    @property
    def schema(self) -> Schema:
        """The channels the model speaks about."""
        return self.network.schema

    @property
    def horizons(self) -> tuple[int, ...]:
        """How many rows ahead it was trained to forecast."""
        return self.network.horizons

    @property
    def context(self) -> int:
        """How many rows of history it reads."""
        return self.network.config.context

    @property
    def period(self) -> float | None:
        """Seconds between two rows, where the file says it."""
        known: float | None = self.opened.provenance.get("row_period")
        return known

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines it learned from."""
        adapted = self.opened.provenance.get("adapted", {}).get("to", {}).get("machines", ())
        return (*self.opened.provenance.get("machines", ()), *adapted)

    def forecast(
        self,
        history: Any,
        plan: Any,
        horizons: Sequence[int] | None = None,
        *,
        session: str | None = None,
        at: float | None = None,
    ) -> Forecast:
        """What the sensors will do under the planned commands, at the horizons the model was trained for.

        `history`: a frame (pandas, polars, pyarrow, dict of columns) of the last rows of one session, or a Table or
        its file, of which the last session counts unless `session` and `at` (seconds) name a moment. `plan`: a frame of
        the commands of the rows to come, a file, an NC program, or "table" for what really followed. Names decide; any
        sensors may be absent. For every row of a long plan, or to compare plans, ask `cf.what_if`.

        Examples:
            >>> import crossfeed as cf
            >>> model, table = cf.load("run"), cf.Table.read("a.parquet")
            >>> rows = table.to_polars().filter(session=table.groups[0].session)
            >>> forecast = model.forecast(rows[:32], rows[32:48])
            >>> forecast.quantile(0.9).shape == (len(model.horizons), len(forecast.sensors))
            True
            >>> forecast.to_polars().columns[:5]
            ['window', 'horizon', 'seconds', 'sensor', 'unit']
        """
        if self.network.normaliser.is_placeholder:
            return self.fitted_to(history, at).forecast(history, plan, horizons, session=session, at=at)
        asked = _trained_horizons(self.network, horizons)
        moment = history_of(self.opened, history, session, at)
        (planned,) = read_plans({"plan": plan}, moment)
        _check_reach(planned.commands, asked, moment.period)
        rows = np.concatenate([moment.sensors, moment.commands], axis=1)[-self.context :]
        said = self.network.forecast(rows, planned.commands[: max(asked)], asked)
        commands = shown_commands(moment.schema, moment.commands[-_SHOWN_ROWS:], planned.commands[: max(asked)])
        provenance = self.opened.provenance
        told = warnings_about(moment, provenance) + warnings_of(planned.first(max(asked)), moment, provenance)
        shown = Shown(moment.sensors[-_SHOWN_ROWS:], planned.truth, moment.moment, commands, tuple(told))
        return replace(said, period=moment.period, shown=shown)

    def fitted_to(self, table: Any, at: float | None = None) -> "FittedModel":
        """A model of many machines made ready for the machine of this table; any other model as it is.

        The frame comes from all rows of the table, or, when a moment within it is asked about, from the beginning of
        each run.

        Examples:
            >>> import crossfeed as cf
            >>> model = cf.load("run")
            >>> model.fitted_to("b.parquet") is model
            True
        """
        opened = self.opened.fitted_to(as_table(table, self.schema, "history"), 1.0 if at is None else FIRST_SHARE)
        return self if opened is self.opened else replace(self, opened=opened)

    def save(self, path: Path | str) -> Path:
        """Keep the model as one file: `path` if it ends in .safetensors, else model.safetensors in that folder."""
        path = Path(path)
        file = path if path.suffix == ".safetensors" else path / MODEL
        file.parent.mkdir(parents=True, exist_ok=True)
        self.network.save(file, self.opened.provenance)
        return file

    def inspect(self) -> dict[str, Any]:
        """Everything the model says about itself as plain data, as `crossfeed inspect --json` prints it."""
        from crossfeed.model.model_file import ModelFile
        from crossfeed.training.summary import describe_contents

        model = self.network
        tensors = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
        opened = self.opened
        facts = (model.config, model.schema, model.normaliser, opened.provenance, tensors, opened.sha256)
        return describe_contents(ModelFile(opened.path, *facts))

    def tables(self) -> list[ResultTable]:
        """The model in a few lines: what it reads, what it says, how good it was on sessions it had not seen."""
        unseen = self.network.normaliser.unseen
        sensors = [name for name in self.schema.sensor_names if name not in unseen]
        step = f" of {self.period:g} s" if self.period else ""
        rows = [
            ["reads", f"{self.context} rows{step}: {', '.join(sensors)}"],
            ["under the commands", ", ".join(self.schema.command_names)],
            ["forecasts", f"{', '.join(map(str, self.horizons))} rows ahead"],
            ["parameters", f"{sum(tensor.numel() for tensor in self.network.parameters()):,}"],
        ]
        validation = self.summary.get("validation")
        if validation:
            own, floor = validation["model"], validation["persistence"]
            rows.append(["RMSE, held-out sessions", f"{own['rmse']:.3f} (last value repeated: {floor['rmse']:.3f})"])
            rows.append(["inside 90 % intervals", f"{100 * own['coverage90']:.0f} %"])
        shots = self.adaptation.few_shot if self.adaptation is not None else None
        for row in shots.fractions[-1:] if shots is not None else ():
            change = row.rmse_ratio.estimate
            rows.append(["adapted", f"from {row.support_windows:,} windows; RMSE {change:.3f} times that of before"])
        return [plain_table(f"World model of {named(self.machines) or 'an unnamed machine'}", ("", ""), rows, words=2)]


def load(path: Path | str, device: str = "auto") -> FittedModel:
    """Read a model: its file, or the folder of a training run or of an adaptation; "fleet" is the one we ship.

    Examples:
        >>> import crossfeed as cf
        >>> cf.load("run").machines
        ('mill_a',)
    """
    if not isinstance(path, (str, Path)):
        raise ConfigError(
            f"A model was asked for by a {type(path).__name__}.",
            expected="the path of a model file or of a folder with one, or 'fleet'",
        )
    return FittedModel(open_model(path, device, many_machines=True))


def as_model(model: "FittedModel | Path | str", device: str = "auto") -> FittedModel:
    """A model, or the one at a path."""
    return model if isinstance(model, FittedModel) else FittedModel(as_opened(model, device))


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


def _trained_horizons(model: WorldModel, horizons: Sequence[int] | None) -> tuple[int, ...]:
    """The horizons asked for, all of which the model must have been trained on."""
    if horizons is None:
        return model.horizons
    asked = tuple(horizons)
    strange = [horizon for horizon in asked if horizon not in model.horizons]
    if strange or not asked:
        trained = ", ".join(map(str, model.horizons))
        raise ForecastError(
            f"The model was not trained for {', '.join(map(str, strange)) or 'no horizon at all'} rows ahead.",
            expected=f"some of {trained}",
            remedy="For every row of a plan, however long, ask what_if: it rolls trained horizons forward.",
        )
    return tuple(sorted({int(horizon) for horizon in asked}))


def _check_reach(commands: np.ndarray, horizons: Sequence[int], period: float) -> None:
    """The plan must say what is commanded until the longest horizon."""
    longest = max(horizons)
    if len(commands) < longest:
        raise ForecastError(
            f"The plan has {len(commands)} rows ({len(commands) * period:g} s), but row {longest} is asked for.",
            expected=f"at least {longest} rows of planned commands",
            remedy="Plan further ahead, or ask for shorter horizons: horizons="
            f"{[horizon for horizon in horizons if horizon <= len(commands)] or [1]}.",
        )
