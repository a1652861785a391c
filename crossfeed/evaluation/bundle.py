"""The bundle of one run: the components of the paper's score and what stands beside them, on source validation.

There are six; a network without latents has no self-supervised one.

Everything is measured in one space, and under our protocols under one fixed suite too, so that bundles of different
candidates can be compared; the anchor (errors of trivial predictors) proves that they were. The paper's protocols
measure three components as its authors did: errors under schema-drop count on every channel, hidden ones included, the
masks of the masked component are the candidate's own, and so are the weights of the self-supervised loss, which is
taken on unmasked windows."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.evaluation.channels import calibration, calibration_penalty
from crossfeed.evaluation.command_use import under_false_plans
from crossfeed.evaluation.forecaster import BATCH, masked
from crossfeed.evaluation.metrics import SUMS, Change, EvaluationSet, Scores, only_channels, score_windows
from crossfeed.evaluation.opened_model import WorldModelForecaster
from crossfeed.evaluation.setup import SourceData
from crossfeed.files import plain, write_json
from crossfeed.logs.table import Table
from crossfeed.model.jepa.objectives import ObjectiveConfig
from crossfeed.model.world_model import WorldModel
from crossfeed.training.health import PROTOCOL_SEED, ridge_weights
from crossfeed.training.run_config import RunConfig
from crossfeed.training.seeds import spread_out
from crossfeed.training.validate import UNMASKED, Validator
from crossfeed.windows.corrupt import MaskConfig, level_shift, validation_masks
from crossfeed.windows.windows import WindowBatch, WindowSet

# The suite under which every candidate is judged, whatever masks it was trained with.
SUITE = MaskConfig(mode="mixed", ratio=0.35, channel_drop=0.15)
# Windows of each machine, evenly over its rows: as many of the rare ones as of the frequent ones.
WINDOWS = 1000
RIDGE = 0.01
Features = Callable[[WindowBatch], Tensor]


def machine_invariance(model: WorldModel, fit: WindowSet, test: WindowSet) -> dict[str, Any] | None:
    """Balanced accuracy of a linear classifier that names the machine, from the representation and from the inputs.

    It learns on `fit` and is judged on `test`; nothing where there is one machine only. `leakage` is 0 for an accuracy
    no better than chance and 1 for a perfect one.
    """
    machines = [name for name in fit.machines if name in test.machines]
    if len(machines) < 2:
        return None
    model.eval()
    chance = 1.0 / len(machines)
    found = _accuracy(model.representation, fit, test, machines)
    return {
        "machines": len(machines),
        "chance": chance,
        "accuracy": found,
        "leakage": (found - chance) / (1.0 - chance),
        "accuracy_from_inputs": _accuracy(_inputs, fit, test, machines),
    }


def _inputs(batch: WindowBatch) -> Tensor:
    """What anybody sees of a window: level and spread of every sensor, and which sensors there are."""
    present_BC = batch.m_BKC.double().sum(1)
    mean_BC = (batch.x_BKC.double() * batch.m_BKC).sum(1) / present_BC.clamp(min=1.0)
    square_BC = (batch.x_BKC.double().square() * batch.m_BKC).sum(1) / present_BC.clamp(min=1.0)
    spread_BC = (square_BC - mean_BC.square()).clamp(min=0.0).sqrt()
    return torch.cat([mean_BC, spread_BC, (present_BC > 0).double()], 1)


@torch.no_grad()
def _accuracy(features: Features, fit: WindowSet, test: WindowSet, machines: list[str]) -> float:
    (seen_BD, of_fit_B), (unseen_BD, of_test_B) = (_gather(features, part, machines) for part in (fit, test))
    location_D, scale_D = seen_BD.mean(0), seen_BD.std(0, correction=0).clamp(min=1e-9)

    def design(values_BD: Tensor) -> Tensor:
        return torch.nn.functional.pad((values_BD - location_D) / scale_D, (0, 1), value=1.0)

    x_BF = design(seen_BD)
    wanted_BM = torch.nn.functional.one_hot(of_fit_B, len(machines)).double()
    penalty_F = torch.full((x_BF.shape[1],), RIDGE * len(x_BF), dtype=torch.float64)
    weight_FM = ridge_weights(x_BF.T @ x_BF, x_BF.T @ wanted_BM, penalty_F)
    guess_B = (design(unseen_BD) @ weight_FM).argmax(1)
    right = [(guess_B[of_test_B == number] == number).double().mean() for number in range(len(machines))]
    return float(torch.stack(right).mean())


def _gather(features: Features, windows: WindowSet, machines: list[str]) -> tuple[Tensor, Tensor]:
    """Features of an even sample of every machine's windows, and whose they are."""
    found, owners = [], []
    for number, machine in enumerate(machines):
        own_W = torch.nonzero(windows.machine_W == windows.machines.index(machine)).squeeze(1)
        chosen_W = own_W[spread_out(len(own_W), WINDOWS).to(own_W.device)]
        for part_B in torch.split(chosen_W, BATCH):
            found.append(features(windows.batch(part_B)).double().cpu())
        owners.append(torch.full((len(chosen_W),), number))
    return torch.cat(found), torch.cat(owners)


def measure_bundle(
    model: WorldModel,
    tables: Sequence[Table],
    config: RunConfig,
    summary: dict[str, Any],
    shared: Sequence[str],
    path: Path | str,
    as_in_paper: bool = False,
) -> dict[str, Any]:
    """Measure a finished run and write its bundle; `shared` are the sensors the target machine has."""
    hidden = _hidden(model, shared)
    device, precision = _device_and_precision(summary)
    model = model.to(device)
    source, forecaster = SourceData.of(tables, config.data), WorldModelForecaster(model)
    stride = config.data.stride
    data = source.evaluation_set(model, "validation", stride=stride)
    reduced = source.evaluation_set(model, "validation", hidden, stride)
    every = torch.arange(len(data.windows))
    plans = under_false_plans(forecaster, data, every, ["shuffled"], PROTOCOL_SEED)
    clean, shuffled = plans["true"], plans["shuffled"]
    kept = score_windows(forecaster, reduced, title="Bundle: schema-drop")
    seeing = only_channels(shared, model.schema.sensor_names)
    every_channel = score_windows(forecaster, data, change=seeing, title="Bundle: schema-drop, all channels")
    schema_drop = every_channel if as_in_paper else kept
    masks = config.masks if as_in_paper else SUITE
    masked = score_windows(forecaster, data, change=_masked(masks), title="Bundle: masked")
    shifted = score_windows(
        forecaster, data, world=lambda batch, _: level_shift(batch, PROTOCOL_SEED), title="Bundle: level shift"
    )
    validator = Validator(model, source.windows(model, "train", (), stride), data.windows, config, precision)
    health = validator.health()
    before = Path(path).parent / "pretrained.safetensors"
    ssl = _ssl(model, validator, config, before) if model.compares_latents else {}
    content = {
        "components": {
            "clean": _rmse(clean),
            "schema_drop": _rmse(schema_drop),
            "masked": _rmse(masked),
            "long_horizon": max(_number(row["rmse"]) for row in clean.by("horizon").values()),
            "calibration": calibration_penalty(clean),
            **({"ssl": ssl["as_trained" if as_in_paper else "suite"]} if ssl else {}),
        },
        "ssl_scale_free": ssl.get("scale_free"),
        "ssl_as_trained": ssl.get("as_trained"),
        "command_ratio": _rmse(shuffled) / _rmse(clean),
        "collapsed": bool(health.reasons),
        "collapse_reasons": list(health.reasons),
        "health": health.values,
        "replay_rmse": validator.forecast().rmse,
        "anchor": _anchor(clean, data),
        "by_machine": _by_machine(forecaster, tables, config),
        "invariance": machine_invariance(model, validator.train, data.windows),
        "details": {
            "clean": clean.metrics(),
            "clean_by_horizon": clean.by("horizon"),
            "clean_by_channel": clean.by("channel"),
            "clean_on_shared_sensors": clean.metrics(channel=list(shared)),
            "schema_drop": kept.metrics(),
            "schema_drop_on_every_channel": every_channel.metrics(),
            "masked": masked.metrics(),
            "level_shift": shifted.metrics(),
            "calibration": calibration(clean),
            "shared_sensors": list(shared),
        },
    }
    write_json(path, content)
    return dict(plain(content))


def _by_machine(forecaster: WorldModelForecaster, tables: Sequence[Table], config: RunConfig) -> dict[str, Any]:
    """Each machine's validation side on its own, where there are several; also of machines that were left out.

    The space is that of all machines, so that runs that left out different ones are judged alike.
    """
    whole = SourceData.of(tables, config.data.model_copy(update={"leave_out": ()}))
    machines = list(dict.fromkeys(machine for table in whole.tables for machine in table.machines()))
    if len(machines) < 2:
        return {}
    found = {}
    for machine in machines:
        data = whole.of_machine(forecaster.model, machine, "validation", config.data.stride)
        scores = score_windows(forecaster, data, title=f"Bundle: {machine}")
        anchor = _anchor(scores, data)
        found[machine] = {
            **scores.metrics(),
            "by_channel": scores.by("channel"),
            "windows": len(data.windows),
            "persistence_rmse": anchor["persistence_rmse"],
            "left_out": machine in config.data.leave_out,
        }
    return found


def _anchor(clean: Scores, data: EvaluationSet) -> dict[str, Any]:
    """Errors of trivial predictors: equal for all bundles that were measured on the same windows in the same space."""
    total = dict(zip(SUMS, clean.sums.sum((0, 1, 2, 3)), strict=True))
    return {
        "persistence_rmse": math.sqrt(total["persistence_squared"] / total["count"]),
        "source_mean_rmse": math.sqrt(total["value_squared"] / total["count"]),
        "entries": int(total["count"]),
        "windows": data.windows.hash(),
        "space": data.space.hash(),
    }


def _ssl(model: WorldModel, validator: Validator, config: RunConfig, pretrained: Path) -> dict[str, float]:
    """Held-out self-supervised loss as the paper sums it, and the scale-free latent error, of the pretrained body.

    `suite` and `scale_free` under the suite's masks and the default objective, whatever the candidate trained with: its
    own weights move the loss of the very same body. `as_trained` is the loss that the authors score: with the
    candidate's weights, on unmasked windows. A run without pretraining is measured as it is after fine-tuning.
    """
    judged = WorldModel.load(pretrained, device=validator.device) if pretrained.exists() else model
    own = config.latents if config.latents.active("pretrain") else ObjectiveConfig()

    def score(selection: str, masks: MaskConfig, objectives: ObjectiveConfig) -> float:
        training = config.training.model_copy(update={"selection": selection})
        chosen = config.model_copy(update={"training": training, "objectives": objectives})
        parts = (judged, validator.train, validator.validation, chosen, "float32")
        return Validator(*parts, masks=masks).losses("pretrain")[1]

    return {
        "suite": score("paper", SUITE, ObjectiveConfig()),
        "scale_free": score("scale_free", SUITE, ObjectiveConfig()),
        "as_trained": score("paper", UNMASKED, own),
    }


def _masked(masks: MaskConfig) -> Change:
    """What hides entries of a context, the same ones whoever asks."""

    def change(batch: WindowBatch, _: Tensor) -> WindowBatch:
        m_BKC = validation_masks(batch.x_BKC, batch.m_BKC, batch.last_index_B, masks, PROTOCOL_SEED)
        return masked(batch, m_BKC)

    return change


def _hidden(model: WorldModel, shared: Sequence[str]) -> list[str]:
    known = [name for name in shared if name in model.schema.sensor_names and name not in model.normaliser.unseen]
    if not known:
        raise ConfigError(
            f"None of the shared sensors ({', '.join(shared) or 'none given'}) is one the model was trained on.",
            expected=f"at least one of {', '.join(model.schema.sensor_names)}",
            remedy="Name the sensors that source and target machine both have.",
        )
    return [name for name in model.schema.sensor_names if name not in shared]


def _device_and_precision(summary: dict[str, Any]) -> tuple[torch.device, str]:
    """Device and precision of the training run, if the device is at hand, so that a replay gives the same numbers."""
    wanted = torch.device(str(summary.get("device", "cpu")))
    if wanted.type == "cpu" or torch.cuda.is_available():
        return wanted, str(summary.get("precision", "float32"))
    return torch.device("cpu"), "float32"


def _rmse(scores: Scores) -> float:
    return _number(scores.metrics()["rmse"])


def _number(value: float | None) -> float:
    assert value is not None
    return value
