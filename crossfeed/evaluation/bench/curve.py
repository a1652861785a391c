"""The learning curve: everybody on the same test sessions after 0, 1, 3, ... minutes of the machine's own logs.

Each run is one model, so many minutes and one seed; what is there already is not run again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.baselines.budget import Budget, Size
from crossfeed.evaluation.baselines.compare import do_runs, effort_of, run_once
from crossfeed.evaluation.baselines.contenders import NAIVE, Fitted, Setting, comparison_data, contender
from crossfeed.evaluation.baselines.results import Result, over_seeds
from crossfeed.evaluation.bench.fleet import BySession, FleetContender, open_fleet
from crossfeed.evaluation.bench.own_logs import FIRST_ROWS, JudgedWindows, OwnLogs, sensors_left_out, sides
from crossfeed.evaluation.bench.result import (
    ALL,
    METRICS,
    MINUTES,
    Crossing,
    CurvePoint,
    LearningCurve,
    crossing,
    folder_name,
    in_words,
    parse_minutes,
    spoken,
)
from crossfeed.evaluation.forecaster import Forecaster, NaiveForecaster
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.files import claim
from crossfeed.jobs import JobSpec
from crossfeed.logs.align import as_table
from crossfeed.logs.table import Table
from crossfeed.model.model_file import FLEET
from crossfeed.model.new_machine import readable_schema
from crossfeed.model.world_model import choose_device
from crossfeed.schema import canonical
from crossfeed.show.tables import plural
from crossfeed.training.run_config import BUDGETS, RunConfig, planned, preset
from crossfeed.windows.listing import list_windows, pair_up
from crossfeed.windows.split import By
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
    length = BUDGETS[budget][0] if budget in BUDGETS else 1.0
    wanted = planned(config.model_copy(update={"training": training}), windows, budget).training
    epochs = max(2, min(wanted.finetune_epochs or 2, round(MOST_EPOCHS * length)))
    patience = max(3, min(wanted.patience, epochs // 3))
    return Budget(
        epochs=epochs, pretext_epochs=epochs // 2, batch_size=batch, patience=patience,
        validation_windows=VALIDATION_WINDOWS,
    )  # fmt: skip


MODELS = "fleet,crossfeed,tide,trees,persistence"


def curve(
    table: Table | Path | str, models: str | Sequence[str] = MODELS, minutes: str | Sequence[float | str] = MINUTES,
    out: Path | str | None = None, *, size: Size = "compact", budget: str = "quick", seeds: int = 1, jobs: int = 1,
    fleet: Path | str = FLEET, split_by: By = "session", windows: int = 4000, device: str = "auto",
) -> LearningCurve:  # fmt: skip
    """Errors against minutes of own logs, and from how many minutes on each model is better than the fleet.

    Some sessions of the table are kept to judge by; the first `minutes` of the others are learned from. `models`:
    `fleet` and any name of `crossfeed compare`. The result prints, and has `plot()`, `to_pandas()` and `crossings`.
    With `out` everything is kept there, and what it already holds is not run again.

    Examples:
        >>> import crossfeed as cf
        >>> found = cf.curve("a.parquet", models="ridge,persistence", minutes=[0, 5], size="tiny")
        >>> found.to_pandas()[["model", "minutes"]].values.tolist()
        [['ridge', 0.0], ['persistence', 0.0], ['ridge', 5.0], ['persistence', 5.0]]
        >>> found.point("ridge", "0").remark
        'too little to learn from: 0 rows do not give three pieces with windows of 48 rows'
    """
    if out is None:
        with TemporaryDirectory(prefix="crossfeed-") as temporary:
            return curve(
                table, models, minutes, Path(temporary) / "curve", size=size, budget=budget, seeds=seeds, jobs=jobs,
                fleet=fleet, split_by=split_by, windows=windows, device=device,
            )  # fmt: skip
    table = as_table(table, canonical())
    if min(seeds, jobs, windows) < 1:
        raise ConfigError(
            f"{seeds} seeds, {jobs} jobs and {windows} windows were asked for.", expected="at least one of each"
        )
    asked, names = parse_minutes(minutes), _names(models)
    device = str(choose_device(device))
    any_effort = Setting(effort(budget, size, 1000), size, device, {})
    # Who cannot take part is said before anything is trained.
    seeds_of = {name: range(seeds) if name == FLEET else contender(name, any_effort).seeds(seeds) for name in names}
    setting, left_out = _set_up(table, names, size, budget, windows, fleet, device, split_by, Path(out))
    runner = CurveRunner(setting)
    amounts, notes = _amounts(asked, setting.logs)
    identity = {
        "table": table.fingerprint(), "sensors": setting.logs.table.shown(), "size": size, "budget": budget,
        "split_by": split_by, "judged": {name: len(ends) for name, ends in runner.judged.ends.items()},
        "space": runner.judged.space.hash(), "context": runner.judged.context,
        "horizons": runner.judged.horizons,
    }  # fmt: skip
    claim(setting.folder, "setting.json", identity, "a learning curve")
    # Nothing is learned at 0 minutes, so chance plays no part there.
    plan = [
        JobSpec(
            f"{name}, {spoken(one)}, seed {seed}", CurveRunner.run, (name, one, seed),
            setting.folder / "logs" / folder_name(one) / f"{name}-seed{seed}.txt", effort_of(name) if one else 1.0,
        )
        for one in amounts for name in names for seed in (seeds_of[name] if one else (0,))
    ]  # fmt: skip
    found = do_runs("Learning curve", plan, runner, partial(CurveRunner, setting), jobs, "crps")
    points = tuple(_point(name, one, amounts[one], found) for one in amounts for name in names)
    drawn = LearningCurve(
        machine=table.machines()[0], period=table.period, own_minutes=setting.logs.minutes,
        windows=len(runner.judged), sessions=len(runner.judged.ends), size=size, budget=budget,
        sensors=setting.logs.table.shown(), points=points, crossings=(),
        notes=(*_meaning(runner), *notes, *(f"Not judged: {name}, {why}." for name, why in left_out.items())),
    )  # fmt: skip
    drawn = replace(drawn, crossings=_crossings(drawn))
    drawn.write(setting.folder)
    return drawn


def _names(models: str | Sequence[str]) -> tuple[str, ...]:
    given = models.split(",") if isinstance(models, str) else models
    names = tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
    if not names:
        raise ConfigError("No model was named.", expected=f"names separated by commas, such as {MODELS}")
    return names


def _set_up(
    table: Table, names: Sequence[str], size: Size, budget: str, windows: int, fleet: Path | str, device: str,
    split_by: By, folder: Path,
) -> tuple[CurveSetting, dict[str, str]]:  # fmt: skip
    """Windows as the fleet reads them, or else those of the preset; the sessions divided; sensors left out."""
    config = preset("crossfeed", size)
    data = config.data.model_copy(update={"split_by": split_by})
    logs = OwnLogs.of(table, data)
    opened = open_fleet(fleet, device) if FLEET in names else None
    changes: dict[str, object] = {}
    read_as_commands: dict[str, str] = {}
    if opened is not None:
        model = opened.model
        changes = {"context": model.config.context, "horizons": model.horizons}
        read = readable_schema(table.schema, model.schema).sensor_names
        read_as_commands = {
            name: "the fleet reads it as a command" for name in table.schema.sensor_names if name not in read
        }
    config = config.model_copy(update={"model": config.model.model_copy(update=changes), "data": data})
    left_out = sensors_left_out(logs, config.model.context + config.model.horizons[-1]) | read_as_commands
    shown = table.without(left_out)
    if not shown.present().any():
        raise TableError(
            "No sensor is left to judge by.",
            expected="a sensor that is measured from the beginning and moves",
            remedy="; ".join(f"{name}: {why}" for name, why in left_out.items()) + ".",
        )
    setting = CurveSetting(
        logs=replace(logs, table=shown), config=config, size=size, budget=budget, most_windows=windows,
        fleet=opened.path if opened else None, device=device, folder=folder,
    )  # fmt: skip
    return setting, left_out


def _amounts(asked: Sequence[float], logs: OwnLogs) -> tuple[dict[float, float], list[str]]:
    """The minutes that the own logs hold, each with its true length, and a remark on those that they do not."""
    known = {one: logs.minutes if one == ALL else one for one in asked if one == ALL or one <= logs.minutes}
    missing = [in_words(one) for one in asked if one not in known]
    if not known:
        raise TableError(
            f"The own logs hold {spoken(logs.minutes)} beside the sessions that are judged.",
            expected=f"at least the {missing[0]} minutes that were asked for",
            remedy="Ask for fewer minutes, or for all of them: --minutes 0,all",
        )
    told = f"The own logs hold {spoken(logs.minutes)} beside the judged sessions"
    return known, [f"{told}; {', '.join(missing)} could not be asked." if missing else f"{told}."]


def _point(name: str, asked: float, minutes: float, found: Mapping[tuple[Any, ...], Result]) -> CurvePoint:
    """One model's runs after so many minutes, together."""
    mine = [result for run, result in found.items() if run[:2] == (name, asked)]
    results = [result for result in mine if result.status != "not run"]
    reason = next((result.reason for result in mine if result.status == "not run"), "")
    row = over_seeds(name, results, (TEST,), reason)
    kept = sorted({str(one.details["kept"]) for one in results if "kept" in one.details})
    return CurvePoint(
        model=name, label=in_words(asked), minutes=minutes, seeds=row.seeds, seconds=row.seconds,
        mean={metric: row.mean.get(f"{TEST}.{metric}") for metric in (*METRICS, "command_use")},
        spread={metric: row.spread.get(f"{TEST}.{metric}") for metric in (*METRICS, "command_use")},
        kept=" or ".join(kept), remark=row.remark,
    )  # fmt: skip


def _crossings(curve: LearningCurve) -> tuple[Crossing, ...]:
    if FLEET not in curve.models:
        return ()
    errors: dict[str, list[tuple[float, float]]] = {model: [] for model in curve.models}
    for point in curve.points:
        if crps := point.mean["crps"]:
            errors[point.model].append((point.minutes, crps))
    fleet = errors.pop(FLEET)
    found = (crossing(model, fleet, own) for model, own in errors.items())
    return tuple(one for one in found if one is not None)


def _meaning(runner: CurveRunner) -> list[str]:
    """Without these sentences the numbers mean little."""
    judged, setting = runner.judged, runner.setting
    return [
        f"Everybody is judged on the same {plural(len(judged), 'window')} of {plural(len(judged.ends), 'session')} "
        "that nobody learns from, over all horizons, in standard deviations of all own logs.",
        f"The first minutes of the other sessions, in the order of time, are learned from; normalisers see them alone. "
        f"Size {setting.size}, budget {setting.budget}.",
        f"At 0 minutes the fleet knows the first {FIRST_ROWS} rows of each judged session, and naive baselines have "
        "the spread of their errors in them; windows that end inside these rows are judged for nobody.",
    ]
