"""Zero-shot on machines nobody trained on: models and floors on the same target rows, floors fitted on the source."""

from collections.abc import Mapping, Sequence
from typing import Any

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.evaluation.command_use import command_use
from crossfeed.evaluation.evaluate import evaluate, evaluate_all
from crossfeed.evaluation.examples import example_forecasts
from crossfeed.evaluation.forecaster import Floor, floors
from crossfeed.evaluation.report import COMMAND_WINDOWS, by_channel, intervals, reliability
from crossfeed.evaluation.source import Source, foreign_set
from crossfeed.evaluation.statistics import compare
from crossfeed.evaluation.world_model import WorldModelForecaster
from crossfeed.ingest.table import Table
from crossfeed.json_file import plain
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import console
from crossfeed.training.run_config import RunConfig


def evaluate_target(
    models: Mapping[str, tuple[WorldModel, RunConfig]], sources: Sequence[Table], targets: Sequence[Table]
) -> dict[str, Any]:
    """Score every model once; all of them must see the same windows, in the space of the same source."""
    if not models:
        raise ConfigError("No model was given to evaluate on the target.")
    first, config = next(iter(models.values()))
    source = Source.of(sources, config.data)
    reference = foreign_set(first, targets, source.space)
    results = evaluate_all(fitted_floors(source, first), reference)
    scores, excluded = dict(results.scores), dict(results.excluded)
    use, examples = {}, {}
    for name, (model, _) in models.items():
        data = foreign_set(model, targets, source.space)
        if data.windows.hash() != reference.windows.hash():
            raise ConfigError(
                f"Model '{name}' reads other windows than '{next(iter(models))}'.",
                expected="one context and one set of horizons for all models of a target pass",
            )
        forecaster = WorldModelForecaster(model, name).reading(data.windows)
        try:
            scores[name] = evaluate(forecaster, data)
        except ForecastError as error:
            excluded[name] = error.found
            console().print(f"[yellow]warning:[/] {error.found} It is left out.")
            continue
        use[name] = command_use(forecaster, data, data.sample(COMMAND_WINDOWS))
        examples[name] = example_forecasts(forecaster, data)
    runs = {name: found.run_rmse() for name, found in scores.items()}
    content = {
        "windows": len(reference.windows),
        "unit": reference.unit,
        "period": targets[0].period,
        "runs": list(reference.runs),
        "window_hash": reference.windows.hash(),
        "space": source.space.hash(),
        "excluded": excluded,
        "scores": {name: found.metrics() for name, found in scores.items()},
        "intervals": {name: intervals(found) for name, found in scores.items()},
        "by_horizon": {name: found.by("horizon") for name, found in scores.items()},
        "by_regime": {name: found.by("regime") for name, found in scores.items()},
        "by_run": {name: found.by("run") for name, found in scores.items()},
        "by_channel": {name: by_channel(found, reference) for name, found in scores.items()},
        "calibration": {name: reliability(found) for name, found in scores.items() if found.has_intervals},
        "comparisons": [compare(runs, name) for name in models if name in scores],
        "command_use": use,
        "examples": examples,
    }
    return dict(plain(content))


def fitted_floors(source: Source, model: WorldModel) -> list[Floor]:
    """The floors with the spread they had on the source's train windows, in the model's z-space."""
    train = source.windows(model, "train")
    fitted = floors(model.horizons)
    for floor in fitted:
        floor.fit(train, train, 0)
    return fitted
