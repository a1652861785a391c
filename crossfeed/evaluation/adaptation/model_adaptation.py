"""Adapt a model file to a table, a fraction of each run at a time or online, and report both beside zero-shot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crossfeed.configuration import parse
from crossfeed.errors import ConfigError
from crossfeed.evaluation.adaptation.fewshot import PAPER, FewShotConfig, few_shot
from crossfeed.evaluation.adaptation.online import OnlineConfig, online
from crossfeed.evaluation.adaptation.parameters import Adaptable, Mode
from crossfeed.evaluation.adaptation.result import AdaptationResult, FewShotResult, OnlineResult
from crossfeed.evaluation.command_use import ratio
from crossfeed.evaluation.conformal import ForecastRecorder, adaptive_widths, coverage
from crossfeed.evaluation.metrics import LEVELS, Axis, EvaluationSet
from crossfeed.evaluation.opened_model import OpenedModel, WorldModelForecaster
from crossfeed.evaluation.result import ModelFacts
from crossfeed.evaluation.setup import sensors_not_read, set_up
from crossfeed.evaluation.verdict import Metrics
from crossfeed.files import write_sealed
from crossfeed.logs.table import Table
from crossfeed.windows.frame import FIRST_SHARE


@dataclass(frozen=True, eq=False)
class Adaptation:
    """What adapting did: `result` is what adaptation.json holds, `models` the adapted ones by name."""

    result: AdaptationResult
    models: dict[str, OpenedModel]


def adapt_model(
    opened: OpenedModel,
    table: Table,
    *,
    fewshot: FewShotConfig | None = None,
    streaming: OnlineConfig | None = None,
    sources: Sequence[Table] = (),
    file: str | None = None,
    out: Path | str | None = None,
) -> Adaptation:
    """Adapt and judge; with `out`, write `adaptation.json` and the adapted models into that folder.

    `sources` are tables that the model was trained on, `file` is what the table is called in the result.
    """
    # A frame is told from no more of each run than is learned from, where so much is.
    learned = max(fewshot.fractions, default=0.0) if fewshot else 0.0
    share, before = min(FIRST_SHARE, learned or FIRST_SHARE), opened
    opened = opened.fitted_to(table, share)
    strange = sensors_not_read(opened.model, table)
    if opened.trained_on(table):
        raise ConfigError(
            "The model was trained on this very table, so there is nothing to adapt to.",
            expected="a table of another machine",
        )
    opened = opened.with_sensors_of(table, share)
    facts = {"file": file, "fingerprint": table.fingerprint(), "machines": list(table.machines())}
    data = set_up(opened, table, sources=sources).data
    folder, changed = None if out is None else Path(out), opened is not before
    found = adapt(opened, data, facts, fewshot, streaming, folder, changed)
    left = sensors_not_read(opened.model, table)
    result = replace(
        found.result,
        absent_commands=opened.misses(table),
        sensors_taken_in=tuple(name for name in strange if name not in left),
    )
    if folder is not None:
        write_sealed(folder / "adaptation.json", result.to_dict())
    return replace(found, result=result)


def adapt(
    opened: OpenedModel,
    data: EvaluationSet,
    table: dict[str, Any],
    fewshot: FewShotConfig | None,
    streaming: OnlineConfig | None,
    out: Path | None = None,
    changed: bool = False,
) -> Adaptation:
    """Adapt an opened model to windows at hand; `table` says in the result where they come from.

    A model that has just `changed` for this machine is kept even if there was nothing to learn from.
    """
    opened.forecaster.reading(data.windows)
    models: dict[str, OpenedModel] = {}
    shots: FewShotResult | None = None
    streamed: OnlineResult | None = None
    if fewshot is not None:
        found = few_shot(opened.forecaster, data, fewshot)
        shots = found.result
        if shots.fractions[-1].updates or changed:
            models["few_shot"] = _adapted(found.forecaster, "few_shot", opened, table, fewshot)
    if streaming is not None:
        streamed, forecasters = _stream(opened, data, streaming)
        for machine, forecaster in forecasters.items():
            name = f"online_{machine}"
            models[name] = _adapted(forecaster, name, opened, table, streaming)
    kept = {} if out is None else {out / adapted.path: adapted for adapted in models.values()}
    for path, adapted in kept.items():
        adapted.model.save(path, adapted.provenance)
    result = AdaptationResult(
        model=ModelFacts(opened.path.name, opened.forecaster.name, opened.sha256),
        table=table,
        windows=len(data.windows),
        runs=tuple(data.runs),
        few_shot=shots,
        online=streamed,
        models=tuple(str(path) for path in kept),
    )
    return Adaptation(result, models)


def fewshot_or_online(
    fractions: tuple[float, ...], streaming: bool, mode: Mode, steps: int | None, rate: float, seed: int,
    protocol: str = "crossfeed",
) -> tuple[FewShotConfig | None, OnlineConfig | None]:  # fmt: skip
    """What the command line asks for: one of the two ways to adapt, with its own defaults."""
    asked: dict[str, Any] = {"mode": mode, "learning_rate": rate, "seed": seed}
    asked |= {} if steps is None else {"steps": steps}
    if streaming:
        if protocol == "paper":
            raise ConfigError(
                "Online adaptation was asked for under the protocol 'paper', which has none.",
                expected="online under the protocol crossfeed, or few-shot",
            )
        return None, parse(OnlineConfig, asked, "The request")
    asked |= {"fractions": fractions, **(PAPER if protocol == "paper" else {})}
    return parse(FewShotConfig, asked, "The request"), None


def _stream(
    opened: OpenedModel, data: EvaluationSet, config: OnlineConfig
) -> tuple[OnlineResult, Mapping[str, Adaptable]]:
    """Online adaptation with intervals tracked while running on top of it, and the model of each machine."""
    record = ForecastRecorder(data.windows)
    result = online(opened.forecaster, data, config, record)
    _, stream = record.trace()
    tracked = coverage(stream, adaptive_widths(stream, data.windows.horizons))

    def rmse_by(axis: Axis) -> dict[str, Metrics]:
        after = result.online.by(axis)
        before = result.zero_shot.by(axis)
        return {label: {"zero_shot": row["rmse"], "online": after[label]["rmse"]} for label, row in before.items()}

    found = OnlineResult(
        config=config.model_dump(mode="json"),
        updates=result.updates,
        parameters_moved=result.moved,
        zero_shot=result.zero_shot.metrics(),
        online=result.online.metrics(),
        rmse_ratio=ratio(result.online, result.zero_shot, "squared"),
        mae_ratio=ratio(result.online, result.zero_shot, "absolute"),
        crps_ratio=ratio(result.online, result.zero_shot, "crps"),
        tracked_coverage=dict(zip(map(str, LEVELS), tracked.tolist(), strict=True)),
        by_run=rmse_by("run"),
        by_horizon=rmse_by("horizon"),
    )
    return found, result.forecasters


def _adapted(
    forecaster: Adaptable, name: str, opened: OpenedModel, table: dict[str, Any], config: FewShotConfig | OnlineConfig
) -> OpenedModel:
    """An adapted model, not yet in a file, that says what it was adapted from, to and how."""
    assert isinstance(forecaster, WorldModelForecaster)
    history = {"from": opened.sha256, "to": table, "how": config.model_dump(mode="json")}
    own = WorldModelForecaster(forecaster.model, name)
    return replace(
        opened, path=Path(f"{name}.safetensors"), forecaster=own, provenance={**opened.provenance, "adapted": history}
    )
