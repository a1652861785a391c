"""The comparison: everybody on the same windows with the same budget, resumable run by run, one table at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from crossfeed.errors import ConfigError, CrossfeedError, ForecastError, StorageError, TrainingError
from crossfeed.evaluation.baselines import ARMS
from crossfeed.evaluation.baselines.budget import Budget, Size
from crossfeed.evaluation.baselines.contenders import (
    NAIVE,
    ComparisonData,
    Fitted,
    Setting,
    comparison_data,
    contender,
    line_up,
)
from crossfeed.evaluation.baselines.networks import modules_of_registered
from crossfeed.evaluation.baselines.official import find_clones
from crossfeed.evaluation.baselines.results import ComparisonTable, Result, result_file
from crossfeed.evaluation.command_use import false_plan
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.files import claim
from crossfeed.jobs import JobSpec, run_all
from crossfeed.logs.align import check_row_period
from crossfeed.logs.table import Table
from crossfeed.model.model_file import FLEET
from crossfeed.model.world_model import choose_device
from crossfeed.training.run_config import RunConfig, preset

# Command use needs extra passes; so many evenly spread windows say enough.
_PROBED = 1000


@dataclass(frozen=True, slots=True)
class ComparisonInputs:
    """What a process needs to do any run of a comparison."""

    sources: tuple[Table, ...]
    target: Table | None
    config: RunConfig
    contenders: Setting
    folder: Path


class ComparisonRunner:
    """Does any run of a comparison, and keeps what its runs share."""

    def __init__(self, setting: ComparisonInputs) -> None:
        self.setting = setting

    @cached_property
    def data(self) -> ComparisonData:
        """Everybody's windows."""
        one = self.setting
        return comparison_data(one.sources, one.target, one.config, torch.device(one.contenders.device))

    def run(self, name: str, seed: int) -> Result:
        """The saved result of a contender's run, or a new one."""
        folder, one = self.setting.folder, contender(name, self.setting.contenders)
        model = folder / "models" / f"{name}-seed{seed}"
        return run_once(folder, name, seed, one.absent, lambda: one.fit(self.data, seed, model), self.data.scored)


def do_runs(
    title: str, jobs: Sequence[JobSpec], runner: object, make: Callable[[], object], processes: int, metric: str
) -> dict[tuple[Any, ...], Result]:
    """The result of every run by its arguments, the first of which is the model; each process makes its own runner."""
    modules = modules_of_registered(job.arguments[0] for job in jobs) if processes > 1 else ()
    prepare = partial(_prepare, make, modules)
    done = run_all(title, jobs, runner, prepare, processes, lambda result: result.in_words(metric))
    return {job.arguments: result for job, result in done}


def _prepare(make: Callable[[], object], modules: Sequence[str]) -> object:
    for module in modules:
        import_module(module)
    return make()


def measure(forecaster: Forecaster, data: EvaluationSet) -> dict[str, Any]:
    """All metrics of the table on one set of windows, with the errors per horizon and per run beside them."""
    scores = score_windows(forecaster, data)
    pooled = scores.metrics()
    index_W = data.sample(_PROBED)
    true = scores if len(index_W) == len(data.windows) else score_windows(forecaster, data, index_W)
    shuffled = score_windows(forecaster, data, index_W, false_plan("shuffled", data, index_W, seed=0))
    rmse, rmse_shuffled = true.metrics()["rmse"], shuffled.metrics()["rmse"]
    return {
        **{name: pooled[name] for name in ("rmse", "mae", "crps", "nll", "skill_rmse", "skill_mae")},
        "coverage90": pooled["coverage90"],
        "command_use": rmse_shuffled / rmse if rmse and rmse_shuffled is not None else None,
        "windows": scores.windows,
        "rmse_by_horizon": {label: row["rmse"] for label, row in scores.by("horizon").items()},
        "rmse_by_channel": {label: row["rmse"] for label, row in scores.by("channel").items()},
        "rmse_by_run": {label: row["rmse"] for label, row in scores.by("run").items()},
        "mae_by_run": {label: row["mae"] for label, row in scores.by("run").items()},
    }


def effort_of(model: str) -> float:
    """About how long a run takes beside others; the longest, begun last, would leave the other processes idle."""
    return 20.0 if model in ARMS or model == FLEET else 1.0 if model in NAIVE else 5.0


def run_once(
    folder: Path, name: str, seed: int, absent: str, fit: Callable[[], Fitted], scored: Mapping[str, EvaluationSet]
) -> Result:
    """The saved result of a run, or a new one; a diverged run is a result too, a full disk ends everything."""
    try:
        return Result.of(result_file(folder, name, seed), lambda: _new_result(name, seed, absent, fit, scored))
    except StorageError:
        raise
    except CrossfeedError as error:
        return Result(name, seed, "not run", absent, reason=error.found)


def _new_result(
    model: str, seed: int, absent: str, fit: Callable[[], Fitted], scored: Mapping[str, EvaluationSet]
) -> Result:
    try:
        fitted = fit()
        scores = {name: measure(fitted.forecaster, part) for name, part in scored.items()}
    except (TrainingError, ForecastError) as error:
        return Result(model, seed, "diverged", absent, reason=error.found)
    return Result(
        model=model, seed=seed, status="finished", absent=absent,
        uses_future_commands=fitted.forecaster.uses_future_commands, parameters=fitted.parameters,
        seconds=fitted.seconds, scores=scores, details=fitted.details,
    )  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """What a comparison found, and where it lies."""

    folder: Path
    results: tuple[Result, ...]
    table: ComparisonTable


def compare(
    sources: Sequence[Table], target: Table | None, out: Path | str, *,
    models: str = "short", seeds: int = 3, budget: Budget, size: Size = "tiny",
    repositories: Sequence[Path] = (), config: RunConfig | None = None, device: str = "auto", jobs: int = 1,
) -> Comparison:  # fmt: skip
    """Train and score every model with every seed, and write the table; what `out` already holds is not run again."""
    if seeds < 1 or jobs < 1:
        raise ConfigError(f"{seeds} seeds and {jobs} jobs were asked for.", expected="at least one of each")
    if target is not None:
        check_row_period(target.period, sources[0].period, "The target", "the source")
    folder = Path(out)
    setting = Setting(budget, size, str(choose_device(device)), find_clones(list(repositories)))
    contenders, missing = line_up(models, setting)
    inputs = ComparisonInputs(tuple(sources), target, config or preset("crossfeed", size), setting, folder)
    runner = ComparisonRunner(inputs)
    data = runner.data
    identity: dict[str, Any] = {**data.identity, "budget": budget.model_dump(mode="json"), "size": size}
    claim(folder, "comparison.json", identity, "a comparison")
    plan = [
        JobSpec(
            f"{one.name}, seed {seed}", ComparisonRunner.run, (one.name, seed),
            folder / "logs" / f"{one.name}-seed{seed}.txt",
            effort_of(one.name),
        )
        for one in contenders for seed in one.seeds(seeds)
    ]  # fmt: skip
    found = do_runs("Comparison", plan, runner, partial(ComparisonRunner, inputs), jobs, "rmse")
    missing |= {one.model: f"not run: {one.reason}" for one in found.values() if one.status == "not run"}
    results = [found[job.arguments] for job in plan if found[job.arguments].status != "not run"]
    table = ComparisonTable.build(results, missing, data, budget, size)
    table.write(folder)
    return Comparison(folder, tuple(results), table)
