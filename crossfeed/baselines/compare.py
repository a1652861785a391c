"""The comparison: everybody on the same windows with the same budget, resumable run by run, one table at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossfeed.baselines.budget import Budget
from crossfeed.baselines.clones import find_clones
from crossfeed.baselines.comparison_data import ComparisonData, comparison_data
from crossfeed.baselines.contenders import Contender, Setting, line_up
from crossfeed.baselines.results import Result, claim_folder, measure
from crossfeed.baselines.sizes import Size
from crossfeed.baselines.table import ComparisonTable, write_table
from crossfeed.errors import ConfigError, CrossfeedError, ForecastError, StorageError, TrainingError
from crossfeed.ingest.table import Table
from crossfeed.progress import console
from crossfeed.training.precision import choose_device
from crossfeed.training.run_config import RunConfig, preset


@dataclass(frozen=True)
class Comparison:
    """What a comparison found, and where it lies."""

    folder: Path
    results: tuple[Result, ...]
    table: ComparisonTable


def compare(
    sources: Sequence[Table], target: Table | None, out: Path | str, *,
    models: str = "short", seeds: int = 3, budget: Budget, size: Size = "tiny",
    repositories: Sequence[Path] = (), config: RunConfig | None = None, device: str = "auto",
) -> Comparison:  # fmt: skip
    """Train and score every model with every seed, and write the table; what `out` already holds is not run again."""
    if seeds < 1:
        raise ConfigError(f"{seeds} seeds were asked for.", expected="at least one")
    folder, place = Path(out), choose_device(device)
    setting = Setting(budget, size, str(place), find_clones(list(repositories)))
    contenders, missing = line_up(models, setting)
    data = comparison_data(sources, target, config or preset("crossfeed", size), place)
    identity: dict[str, Any] = {**data.identity, "budget": budget.model_dump(mode="json"), "size": size}
    claim_folder(folder, identity)
    plan = [(one, seed) for one in contenders for seed in range(seeds if one.seeded else 1)]
    results, unfinished = [], dict(missing)
    for number, (one, seed) in enumerate(plan, start=1):
        head = f"[{number}/{len(plan)}] {one.name}, seed {seed}"
        try:
            result = _result(one, seed, data, folder)
        except StorageError:
            raise
        except CrossfeedError as error:
            unfinished[one.name] = f"not run: {error.found}"
            console().print(f"{head}: could not run: {error.found}", markup=False)
            continue
        results.append(result)
        console().print(f"{head}: {_in_words(result)}", markup=False)
    table = ComparisonTable.build(results, unfinished, data, budget, size)
    write_table(folder, table, results)
    return Comparison(folder, tuple(results), table)


def _result(one: Contender, seed: int, data: ComparisonData, folder: Path) -> Result:
    """The saved result of a run, or a new one; a diverged run is a result too."""
    path = folder / "runs" / f"{one.name}-seed{seed}.json"
    if path.exists():
        return Result.read(path)
    try:
        fitted = one.fit(data, seed, folder / "models" / f"{one.name}-seed{seed}")
        scores = {name: measure(fitted.forecaster, part) for name, part in data.scored.items()}
    except (TrainingError, ForecastError) as error:
        result = Result(one.name, seed, "diverged", one.absent, reason=error.found)
    else:
        result = Result(
            model=one.name, seed=seed, status="finished", absent=one.absent,
            uses_future_commands=fitted.forecaster.uses_future_commands, parameters=fitted.parameters,
            seconds=fitted.seconds, scores=scores, details=fitted.details,
        )  # fmt: skip
    result.write(path)
    return result


def _in_words(result: Result) -> str:
    if result.status == "diverged":
        return f"diverged: {result.reason}"
    errors = ", ".join(f"{name} RMSE {scores['rmse']:.3f}" for name, scores in result.scores.items())
    return f"{errors} ({result.seconds:.0f} s)"
