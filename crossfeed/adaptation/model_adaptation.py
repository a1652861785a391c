"""Adapt a model file to a table, a fraction of each run at a time or online, and report both beside zero-shot."""

from pathlib import Path
from typing import Any

from crossfeed.adaptation.fewshot import FewShotConfig, few_shot, few_shot_table
from crossfeed.adaptation.online import OnlineConfig, online
from crossfeed.adaptation.parameters import Mode
from crossfeed.configuration import parse
from crossfeed.errors import ConfigError
from crossfeed.evaluation.command_use import ratio
from crossfeed.evaluation.conformal import Recorder, adaptive_widths, coverage
from crossfeed.evaluation.evaluate import EvaluationSet
from crossfeed.evaluation.metrics import LEVELS
from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.evaluation.setup import set_up
from crossfeed.evaluation.source import idle_commands, read_table
from crossfeed.evaluation.world_model import WorldModelForecaster
from crossfeed.json_file import plain, write_json


def adapt_model(
    model: Path | str,
    table: Path | str,
    *,
    fewshot: FewShotConfig | None = None,
    streaming: OnlineConfig | None = None,
    source: Path | str | None = None,
    out: Path | str | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """Adapt and judge; with `out`, write `adaptation.json` and the adapted models into that folder."""
    opened = open_model(model, device)
    read = read_table(table, opened.model.schema)
    if opened.trained_on(read):
        raise ConfigError(
            "The model was trained on this very table, so there is nothing to adapt to.",
            expected="a table of another machine",
        )
    given = [read_table(source, opened.model.schema)] if source is not None else []
    facts = {"file": Path(table).name, "fingerprint": read.fingerprint(), "machines": list(read.machines())}
    data = set_up(opened, read, sources=given).data
    content = adapt(opened, data, facts, fewshot, streaming, None if out is None else Path(out))
    content["absent_commands"] = idle_commands(read, opened.model.schema)
    if out is not None:
        write_json(Path(out) / "adaptation.json", content)
    return content


def adapt(
    opened: OpenedModel,
    data: EvaluationSet,
    table: dict[str, Any],
    fewshot: FewShotConfig | None,
    streaming: OnlineConfig | None,
    out: Path | None = None,
) -> dict[str, Any]:
    """Adapt an opened model to windows at hand; `table` says in the result where they come from."""
    opened.forecaster.reading(data.windows)
    kept: list[Path] = []
    content: dict[str, Any] = {
        "model": {"file": opened.path.name, "name": opened.forecaster.name, "sha256": opened.sha256},
        "table": table,
        "windows": len(data.windows),
        "runs": list(data.runs),
    }
    if fewshot is not None:
        rows, divided = few_shot(opened.forecaster, data, fewshot)
        content["few_shot"] = few_shot_table(rows, divided, fewshot)
        if out is not None and rows[-1].updates:
            kept.append(_save(rows[-1].forecaster, opened, out / "few_shot.safetensors", table, fewshot))
    if streaming is not None:
        content["online"] = _stream(opened, data, streaming, out, table, kept)
    content["models"] = [str(path) for path in kept]
    return dict(plain(content))


def plans(
    fractions: tuple[float, ...], streaming: bool, mode: Mode, steps: int | None, rate: float, seed: int
) -> tuple[FewShotConfig | None, OnlineConfig | None]:
    """What the command line asks for: one of the two ways to adapt, with its own defaults."""
    asked: dict[str, Any] = {"mode": mode, "learning_rate": rate, "seed": seed}
    asked |= {} if steps is None else {"steps": steps}
    if streaming:
        return None, parse(OnlineConfig, asked, "The request")
    return parse(FewShotConfig, asked | {"fractions": fractions}, "The request"), None


def _stream(
    opened: OpenedModel,
    data: EvaluationSet,
    config: OnlineConfig,
    out: Path | None,
    table: dict[str, Any],
    kept: list[Path],
) -> dict[str, Any]:
    """Online adaptation and, on top of it, intervals tracked while running; `kept` learns where the models lie."""
    record = Recorder(data.windows)
    result = online(opened.forecaster, data, config, record)
    _, stream = record.trace()
    tracked = coverage(stream, adaptive_widths(stream, data.windows.horizons))
    if out is not None:
        for machine, adapted in result.forecasters.items():
            kept.append(_save(adapted, opened, out / f"online_{machine}.safetensors", table, config))
    return {
        "config": config.model_dump(mode="json"),
        "updates": result.updates,
        "parameters_moved": result.moved,
        "zero_shot": result.zero_shot.metrics(),
        "online": result.online.metrics(),
        "rmse_ratio": ratio(result.online, result.zero_shot, "squared"),
        "mae_ratio": ratio(result.online, result.zero_shot, "absolute"),
        "crps_ratio": ratio(result.online, result.zero_shot, "crps"),
        "tracked_coverage": dict(zip(map(str, LEVELS), tracked.tolist(), strict=True)),
        "by_run": {
            run: {"zero_shot": before["rmse"], "online": result.online.by("run")[run]["rmse"]}
            for run, before in result.zero_shot.by("run").items()
        },
        "by_horizon": {
            horizon: {"zero_shot": before["rmse"], "online": result.online.by("horizon")[horizon]["rmse"]}
            for horizon, before in result.zero_shot.by("horizon").items()
        },
    }


def _save(
    adapted: object, opened: OpenedModel, path: Path, table: dict[str, Any], config: FewShotConfig | OnlineConfig
) -> Path:
    """Keep an adapted model as a model file of its own that says what it was adapted from, to and how."""
    assert isinstance(adapted, WorldModelForecaster)
    history = {"from": opened.sha256, "to": table, "how": config.model_dump(mode="json")}
    adapted.model.save(path, {**opened.provenance, "adapted": history})
    return path
