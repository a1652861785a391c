"""The runs of a comparison: each computed once, one after the other or in several processes side by side."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from crossfeed.baselines import ARMS
from crossfeed.baselines.comparison_data import ComparisonData, comparison_data
from crossfeed.baselines.contenders import Contender, Fitted, Setting, contender
from crossfeed.baselines.results import Result, measure
from crossfeed.errors import CrossfeedError, ForecastError, StorageError, TrainingError
from crossfeed.evaluation.evaluate import EvaluationSet
from crossfeed.ingest.table import Table
from crossfeed.processes import in_processes
from crossfeed.progress import be_quiet
from crossfeed.training.run_config import RunConfig


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


@dataclass(frozen=True, slots=True)
class AttemptedRun:
    """How a run ended: with a result, or with the reason why it could not be done at all."""

    name: str
    seed: int
    result: Result | None
    reason: str = ""


def do_runs(
    plan: Sequence[tuple[Contender, int]], inputs: ComparisonInputs, data: ComparisonData, jobs: int
) -> Iterator[AttemptedRun]:
    """Bring every run to its end, in the order in which they end."""
    if jobs == 1:
        for one, seed in plan:
            yield do_run(one, seed, data, inputs.folder)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # The world model's arms take longest by far; begun last, they would leave the other processes idle.
    longest_first = sorted(plan, key=lambda run: run[0].name not in ARMS)
    tasks = [(one.name, seed) for one, seed in longest_first]
    yield from in_processes(_do_run_by_name, tasks, jobs, partial(_prepared, inputs, threads))


def do_run(one: Contender, seed: int, data: ComparisonData, folder: Path) -> AttemptedRun:
    """The saved result of a contender's run, or a new one."""
    model = folder / "models" / f"{one.name}-seed{seed}"
    return run_once(folder, one.name, seed, one.absent, lambda: one.fit(data, seed, model), data.scored)


def run_once(
    folder: Path, name: str, seed: int, absent: str, fit: Callable[[], Fitted], scored: Mapping[str, EvaluationSet]
) -> AttemptedRun:
    """The saved result of a run, or a new one; a diverged run is a result too, a full disk ends everything."""
    path = folder / "runs" / f"{name}-seed{seed}.json"
    try:
        result = Result.read(path) if path.exists() else _new_result(name, seed, absent, fit, scored)
    except StorageError:
        raise
    except CrossfeedError as error:
        return AttemptedRun(name, seed, None, error.found)
    result.write(path)
    return AttemptedRun(name, seed, result)


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


def _prepared(inputs: ComparisonInputs, threads: int) -> tuple[ComparisonInputs, ComparisonData]:
    """What a process has for all the runs it will do."""
    be_quiet()
    torch.set_num_threads(threads)
    return inputs, inputs.data()


def _do_run_by_name(prepared: tuple[ComparisonInputs, ComparisonData], name: str, seed: int) -> AttemptedRun:
    inputs, data = prepared
    return do_run(contender(name, inputs.setting), seed, data, inputs.folder)
