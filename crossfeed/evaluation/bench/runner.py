"""The runs of a curve: one model, so many minutes, one seed; what is there already is not run again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path

import torch

from crossfeed.evaluation.baselines.budget import Budget, Size
from crossfeed.evaluation.baselines.compare import do_runs, effort_of, run_once
from crossfeed.evaluation.baselines.contenders import NAIVE, Fitted, Setting, comparison_data, contender
from crossfeed.evaluation.baselines.results import Result
from crossfeed.evaluation.bench.fleet import BySession, FleetContender, open_fleet
from crossfeed.evaluation.bench.own_logs import JudgedWindows, OwnLogs, sides
from crossfeed.evaluation.bench.result import folder_name, spoken
from crossfeed.evaluation.forecaster import Forecaster, NaiveForecaster
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.jobs import JobSpec
from crossfeed.logs.table import Table
from crossfeed.model.model_file import FLEET
from crossfeed.training.budget import BUDGETS, planned
from crossfeed.training.run_config import RunConfig, preset
from crossfeed.windows.listing import list_windows, pair_up
from crossfeed.windows.windows import WindowSet

TEST = "test"
TOO_LITTLE = "too little to learn from"
MOST_EPOCHS = 200  # of a normal run: few windows are known by heart long before
VALIDATION_WINDOWS = 1000


@dataclass(frozen=True)
class CurveSetting:
    """What a process needs to do any run of a curve; `config` has the windows, and how the table is split."""

    logs: OwnLogs
    config: RunConfig
    size: Size
    budget: str
    most_windows: int
    fleet: Path | None
    device: str
    folder: Path


@dataclass(frozen=True)
class FirstMinutes:
    """The first so many minutes: all rows, and the same cut into sides beside the judged sessions, if that goes."""

    minutes: float
    rows: Table | None
    sides: Table | None
    train_windows: int = 0


class CurveRunner:
    """Does any run of a curve, and keeps what its runs share."""

    def __init__(self, setting: CurveSetting) -> None:
        self.setting = setting
        model = setting.config.model
        self.window = model.context + model.horizons[-1]
        self.first_minutes = lru_cache(maxsize=1)(self._first_minutes)

    @cached_property
    def judged(self) -> JudgedWindows:
        model, one = self.setting.config.model, self.setting
        return JudgedWindows.of(one.logs, model.context, model.horizons, one.most_windows, one.device)

    @cached_property
    def fleet(self) -> FleetContender:
        assert self.setting.fleet is not None, "the fleet runs only where it was asked for"
        return FleetContender(open_fleet(self.setting.fleet, self.setting.device), self.setting.logs, self.judged)

    def run(self, name: str, minutes: float, seed: int) -> Result:
        """Bring one run to its end."""
        first = self.first_minutes(minutes)
        if name == FLEET:
            fleet = self.fleet
            origin = f"{FLEET}-{fleet.opened.sha256[:8]}"
            return self._once(name, first, seed, lambda kept: self._fit_fleet(first, seed, kept), fleet.scored, origin)
        if first.sides is None and name in NAIVE:
            # In the space itself: naive baselines have no normaliser of their own.
            logs = self.setting.logs
            scored = self.judged.of_table(logs.table.laid_out(logs.test), self.judged.space)
            return self._once(name, first, seed, lambda _: self._fit_naive(name, first, scored), scored)
        if first.sides is None:
            rows = 0 if first.rows is None else len(first.rows)
            reason = f"{TOO_LITTLE}: {rows} rows do not give three pieces with windows of {self.window} rows"
            return Result(name, seed, "not run", "masked", reason=reason)
        return self._run_contender(name, first, seed)

    def _first_minutes(self, minutes: float) -> FirstMinutes:
        logs = self.setting.logs
        groups = logs.first(minutes)
        if not groups:
            return FirstMinutes(minutes, None, None)
        cut = sides(groups, self.window)
        rows = logs.table.laid_out(groups)
        if not cut:
            return FirstMinutes(minutes, rows, None)
        model = self.setting.config.model
        train = logs.table.laid_out([group for group in cut if group.session.startswith("train/")])
        windows = list_windows(pair_up(train, None), model.context, model.horizons)
        table = logs.table.laid_out([*cut, *logs.test])
        return FirstMinutes(minutes, rows, table if len(windows) >= 4 else None, len(windows))

    def _once(
        self, name: str, first: FirstMinutes, seed: int, fit: Callable[[Path], Fitted], scored: EvaluationSet,
        origin: str = "",
    ) -> Result:  # fmt: skip
        """Where a model comes from a file, its runs lie under `origin`: another file is another model."""
        folder = self.setting.folder / "runs" / folder_name(first.minutes) / origin
        kept = folder / "models" / f"{name}-seed{seed}"
        return run_once(folder, name, seed, "masked", lambda: fit(kept), {TEST: scored})

    def _fit_fleet(self, first: FirstMinutes, seed: int, folder: Path) -> Fitted:
        if first.rows is None:
            return self.fleet.with_beginnings()
        if first.sides is None:
            return self.fleet.as_it_came(first.rows)
        budget = effort(self.setting.budget, self.setting.size, first.train_windows)
        config = self._learning_config()
        return self.fleet.learned_on(first.rows, first.sides, budget, self.setting.size, config, seed, folder)

    def _fit_naive(self, name: str, first: FirstMinutes, scored: EvaluationSet) -> Fitted:
        """With the spread of its errors on all windows of the minutes, else on those in each session's first rows."""
        model = self.setting.config.model
        space = self.judged.space

        def fitted(table: Table) -> NaiveForecaster:
            windows = WindowSet.build(table, None, space, model.context, model.horizons, device=self.setting.device)
            made = NaiveForecaster(name, NAIVE[name], model.horizons)
            made.fit(windows, windows, 0)
            return made

        if first.rows is not None and len(list_windows(pair_up(first.rows, None), model.context, model.horizons)):
            return Fitted(fitted(first.rows), 0, 0.0, {"spread": "errors in the own logs"})
        beginnings = self.setting.logs.beginnings()
        of_session = {group.session: group for group in beginnings.groups}

        def met(session: str) -> Forecaster:
            return fitted(beginnings.select([of_session[session]]))

        forecaster = BySession(name, False, scored.windows, met)
        return Fitted(forecaster, 0, 0.0, {"spread": "errors in the first rows of each session"})

    def _run_contender(self, name: str, first: FirstMinutes, seed: int) -> Result:
        assert first.sides is not None
        setting = self.setting
        budget = effort(setting.budget, setting.size, first.train_windows)
        one = contender(name, Setting(budget, setting.size, setting.device, {}))
        data = comparison_data([first.sides], None, self._learning_config(), torch.device(setting.device))
        windows = data.scored["source"].windows
        scored = self.judged.among(windows, data.training.schema, data.training.normaliser)
        return self._once(
            name, first, seed, lambda kept: one.fit(replace(data, scored={TEST: scored}), seed, kept), scored
        )

    def _learning_config(self) -> RunConfig:
        """The windows of the curve, with the sides that the names of the pieces say."""
        data = self.setting.config.data.model_copy(update={"split_by": "side"})
        return self.setting.config.model_copy(update={"data": data})


def effort(budget: str, size: Size, windows: int) -> Budget:
    """Epochs and batches for so many train windows; batches are small where windows are few."""
    config = preset("crossfeed", size)
    batch = max(2, min(config.training.batch_size, windows // 4))
    training = config.training.model_copy(update={"batch_size": batch})
    length = BUDGETS[budget].length if budget in BUDGETS else 1.0
    wanted = planned(config.model_copy(update={"training": training}), windows, budget).training
    epochs = max(2, min(wanted.finetune_epochs or 2, round(MOST_EPOCHS * length)))
    patience = max(3, min(wanted.patience, epochs // 3))
    return Budget(
        epochs=epochs, pretext_epochs=epochs // 2, batch_size=batch, patience=patience,
        validation_windows=VALIDATION_WINDOWS,
    )  # fmt: skip


CurveRun = tuple[str, float, int]  # a model, so many minutes, a seed


def do_curve_runs(plan: Sequence[CurveRun], runner: CurveRunner, processes: int) -> dict[CurveRun, Result]:
    """Bring every run to its end."""
    jobs = [
        JobSpec(
            f"{model}, {spoken(minutes)}, seed {seed}", CurveRunner.run, (model, minutes, seed),
            runner.setting.folder / "logs" / folder_name(minutes) / f"{model}-seed{seed}.txt",
            effort_of(model) if minutes else 1.0,
        )
        for model, minutes, seed in plan
    ]  # fmt: skip
    done = do_runs("Learning curve", jobs, runner, partial(CurveRunner, runner.setting), processes, "crps")
    return {(model, minutes, seed): result for (model, minutes, seed), result in done.items()}
