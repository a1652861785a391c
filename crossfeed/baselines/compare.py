"""The comparison: everybody on the same windows with the same budget, resumable run by run, one table at the end."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from crossfeed.baselines import ARMS
from crossfeed.baselines.budget import Budget, Size
from crossfeed.baselines.clones import find_clones
from crossfeed.baselines.contenders import ComparisonData, Fitted, Setting, comparison_data, contender, line_up
from crossfeed.baselines.results import ComparisonTable, Result, measure, write_table
from crossfeed.claim import claim
from crossfeed.errors import ConfigError, CrossfeedError, ForecastError, StorageError, TrainingError
from crossfeed.evaluation.evaluate import EvaluationSet
from crossfeed.ingest.align import check_row_period
from crossfeed.ingest.table import Table
from crossfeed.model.device import choose_device
from crossfeed.processes import in_processes
from crossfeed.progress import be_quiet, console
from crossfeed.training.run_config import RunConfig, preset

Shared = TypeVar("Shared")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class ComparisonInputs:
    """What a process needs to do any run of a comparison."""

    sources: tuple[Table, ...]
    target: Table | None
    config: RunConfig
    setting: Setting
    folder: Path

    def data(self) -> ComparisonData:
        """Everybody's windows."""
        return comparison_data(self.sources, self.target, self.config, torch.device(self.setting.device))


def do_runs(
    plan: Sequence[tuple[str, int]], inputs: ComparisonInputs, data: ComparisonData, jobs: int
) -> Iterator[Result]:
    """Bring the run of every model and seed to its end, in the order in which they end."""
    # The world model's arms take longest by far; begun last, they would leave the other processes idle.
    yield from run_tasks(do_run, plan, (inputs, data), jobs, partial(_prepare, inputs), lambda name, _: name in ARMS)


def do_run(prepared: tuple[ComparisonInputs, ComparisonData], name: str, seed: int) -> Result:
    """The saved result of a contender's run, or a new one."""
    inputs, data = prepared
    one, model = contender(name, inputs.setting), inputs.folder / "models" / f"{name}-seed{seed}"
    return run_once(inputs.folder, name, seed, one.absent, lambda: one.fit(data, seed, model), data.scored)


def run_tasks(
    do: Callable[..., Outcome], tasks: Sequence[tuple[Any, ...]], shared: Shared, jobs: int,
    prepare: Callable[[], Shared], effort: Callable[..., float],
) -> Iterator[Outcome]:  # fmt: skip
    """Do every task with what all share; processes side by side each `prepare` that and begin with the longest."""
    if jobs == 1:
        yield from (do(shared, *task) for task in tasks)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    longest_first = sorted(tasks, key=lambda task: -effort(*task))
    yield from in_processes(do, longest_first, jobs, partial(_prepare_quietly, prepare, threads))


def run_once(
    folder: Path, name: str, seed: int, absent: str, fit: Callable[[], Fitted], scored: Mapping[str, EvaluationSet]
) -> Result:
    """The saved result of a run, or a new one; a diverged run is a result too, a full disk ends everything."""
    path = folder / "runs" / f"{name}-seed{seed}.json"
    try:
        result = Result.read(path) if path.exists() else _new_result(name, seed, absent, fit, scored)
    except StorageError:
        raise
    except CrossfeedError as error:
        return Result(name, seed, "not run", absent, reason=error.found)
    result.write(path)
    return result


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


def _prepare(inputs: ComparisonInputs) -> tuple[ComparisonInputs, ComparisonData]:
    return inputs, inputs.data()


def _prepare_quietly(prepare: Callable[[], Shared], threads: int) -> Shared:
    """What a process has for all the runs it will do."""
    be_quiet()
    torch.set_num_threads(threads)
    return prepare()


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
    data = inputs.data()
    identity: dict[str, Any] = {**data.identity, "budget": budget.model_dump(mode="json"), "size": size}
    claim(folder, "comparison.json", identity, "a comparison")
    plan = [(one.name, seed) for one in contenders for seed in one.seeds(seeds)]
    found = {}
    for number, result in enumerate(do_runs(plan, inputs, data, jobs), start=1):
        found[result.model, result.seed] = result
        told = f"{result.model}, seed {result.seed}: {result.in_words('rmse')}"
        console().print(f"[{number}/{len(plan)}] {told}", markup=False)
    missing |= {one.model: f"not run: {one.reason}" for one in found.values() if one.status == "not run"}
    results = [found[run] for run in plan if found[run].status != "not run"]
    table = ComparisonTable.build(results, missing, data, budget, size)
    write_table(folder, table, results)
    return Comparison(folder, tuple(results), table)
