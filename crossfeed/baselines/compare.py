"""The comparison: everybody on the same windows with the same budget, resumable run by run, one table at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossfeed.baselines.budget import Budget, Size
from crossfeed.baselines.clones import find_clones
from crossfeed.baselines.contenders import Setting, line_up
from crossfeed.baselines.results import Result
from crossfeed.baselines.runs import ComparisonInputs, do_runs
from crossfeed.baselines.table import ComparisonTable, write_table
from crossfeed.claim import claim
from crossfeed.errors import ConfigError
from crossfeed.ingest.align import check_row_period
from crossfeed.ingest.table import Table
from crossfeed.model.device import choose_device
from crossfeed.progress import console
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
