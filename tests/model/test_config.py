"""Configurations: what cannot work is refused with the sentence that fixes it, and every leaf has an effect."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from crossfeed.configuration import parse
from crossfeed.errors import ConfigError
from crossfeed.model.config import JepaConfig, SensorConfig, parse_model
from crossfeed.model.live import LiveForecaster
from crossfeed.model.presets import MethodConfig, crossfeed, mended
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.augment import MachineAugmentation, PlanAugmentation
from crossfeed.windows.corrupt import generator_draw
from tests.model import toy
from tests.windows import spindle

# For every leaf of a method: another value, and what must hold for the leaf to matter.
Alternatives = dict[str, tuple[Any, dict[str, Any]]]
SHARED: Alternatives = {
    "model.context": (7, {}),
    "model.horizons": ((1, 3, 4), {}),
    "masks.mode": ("random", {}),
    "masks.ratio": (0.8, {"masks.mode": "random"}),
    "masks.channel_drop": (0.6, {}),
    "machines.gain": (0.5, {}),
    "machines.level": (0.5, {}),
    "machines.noise": (0.5, {}),
    "machines.commands": (0.5, {}),
    "plans.share": (0.9, {}),
}
SENSORS: Alternatives = SHARED | {
    "model.width": (32, {}),
    "model.heads": (4, {}),
    "model.encoder_layers": (2, {}),
    "model.decoder_layers": (2, {}),
    "model.dropout": (0.3, {}),
    "model.movers": (3, {}),
    "model.noise_floor": (0.5, {}),
    "model.reach": (0.5, {}),
    "model.members": (3, {}),
    "model.quantities": (["feed"], {}),
    "model.identity": ("described", {}),
    "objectives.weights.crps": (0.0, {}),
    "objectives.weights.squared": (0.0, {}),
}
JEPA: Alternatives = SHARED | {
    "model.blocks.width": (32, {}),
    "model.blocks.heads": (4, {}),
    "model.blocks.expansion": (2, {}),
    "model.blocks.norm": ("post", {}),
    "model.blocks.dropout": (0.3, {}),
    "model.blocks.activation": ("relu", {}),
    "model.encoder.channel_layers": (2, {}),
    "model.encoder.temporal_layers": (2, {}),
    "model.encoder.positions": (20, {}),
    "model.encoder.empty_row": ("first_channel", {}),
    "model.target.dropout": (True, {}),
    "model.target.positions": ("slot", {}),
    "model.predictor.layers": (2, {}),
    "model.predictor.injection": ("film", {"model.predictor.conditioning": "mean"}),
    "model.predictor.conditioning": ("mean", {}),
    "model.predictor.horizon_embedding": ("slot", {}),
    "model.head.likelihood": ("nll", {}),
    "model.head.beta": (0.9, {}),
    "model.head.variance": ("hard_clamp", {}),
    "model.head.limit": (0.5, {}),
    "model.head.noise_floor": (0.5, {}),
    "model.instance_norm.kind": ("none", {}),
    "model.instance_norm.epsilon": (0.1, {"model.instance_norm.kind": "pure"}),
    "model.instance_norm.floor": (3.0, {"model.instance_norm.kind": "floored"}),
    "model.instance_norm.threshold": (3.0, {"model.instance_norm.kind": "blended"}),
    "model.instance_norm.reach": (0.5, {"model.instance_norm.kind": "anchored"}),
    "objectives.weights.latent": (0.0, {}),
    "objectives.weights.vicreg": (0.0, {}),
    "objectives.weights.schema": (0.0, {}),
    "objectives.weights.recovery": (0.0, {}),
    "objectives.weights.physical": (0.0, {}),
    "objectives.latent_loss": ("mse", {}),
    "objectives.latent_layer_norm": (True, {}),
    "objectives.layer_norm_in": ("all", {"objectives.latent_layer_norm": True}),
    "objectives.latent_target": ("pooled", {}),
    "objectives.regularise": ("pooled", {}),
    "objectives.pooling": ("samples", {"objectives.regularise": "pooled"}),
    "objectives.placement": ("context", {}),
    "objectives.vicreg.variance": (5.0, {}),
    "objectives.vicreg.covariance": (5.0, {}),
    "objectives.vicreg.epsilon": (0.1, {}),
    "objectives.schema_keep": (0.2, {}),
}
BOTH = {"mended": (mended, JEPA), "crossfeed": (crossfeed, SENSORS)}
NAMES_OF_A_KIND = {"model.network", "objectives.trains"}


def _leaves(content: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for name, value in content.items():
        path = f"{prefix}{name}"
        found |= _leaves(value, f"{path}.") if isinstance(value, dict) else {path}
    return found


def _let_it_speak(net: SensorModel) -> None:
    """The head starts as persistence, whatever its queries are; make them matter."""
    torch.manual_seed(4)
    torch.nn.init.normal_(net.network.head.linear.weight, std=0.1)


def _changed_plans(config: MethodConfig) -> list[bool]:
    """Which windows of a spindle are shown under another plan; the toy machine has none."""
    windows = spindle.spindle_windows()
    plans = PlanAugmentation(config.plans, spindle.SCHEMA, spindle.normaliser(), windows)
    batch = windows.batch(torch.arange(0, len(windows), 5))
    if not plans.active:
        return [False] * len(batch.future_a_BTA)
    changed = plans(batch, generator_draw(torch.Generator().manual_seed(3)))
    return (changed.future_a_BTA != batch.future_a_BTA).any(2).any(1).tolist()


def _effect(config: MethodConfig) -> dict[str, Any]:
    """What a configuration visibly does: shapes, buffers, and the loss terms of one training step in each stage."""
    windows = toy.batch()
    windows.m_BKC[0, 2] = False
    torch.manual_seed(0)
    net = WorldModel.build(config.model, toy.SCHEMA, toy.normaliser()).eval()
    tail = -net.config.context
    windows = replace(
        windows, x_BKC=windows.x_BKC[:, tail:], m_BKC=windows.m_BKC[:, tail:], a_BKA=windows.a_BKA[:, tail:]
    )
    seen: dict[str, Any] = {"shapes": {name: tuple(value.shape) for name, value in net.state_dict().items()}}
    seen["buffers"] = {name: buffer.double().sum().item() for name, buffer in net.named_buffers()}
    seen["rows needed"] = LiveForecaster(net).missing_rows
    seen["plans"] = _changed_plans(config)
    net.train()
    others = MachineAugmentation(config.machines, net.normaliser, "cpu")
    windows, gain_B1C = others(windows, generator_draw(torch.Generator().manual_seed(3)))
    if isinstance(net, SensorModel):
        _let_it_speak(net)
    for stage in ("pretrain", "finetune"):
        if config.objectives.active(stage):
            draws = torch.Generator().manual_seed(0)
            batch, views = net.views(windows, windows, gain_B1C, config.masks, config.objectives, draws)
            torch.manual_seed(1)
            terms = net.losses(batch, views, stage, config.objectives).terms
            seen |= {f"{stage}.{name}": term.item() for name, term in terms.items()}
    return seen


@cache
def _effect_before(name: str, needed: str) -> dict[str, Any]:
    """What a configuration does before a leaf is changed: every time the same."""
    config = toy.method(json.loads(needed), BOTH[name][0]())
    found = _effect(config)
    assert _effect(config) == found
    return found


@pytest.mark.parametrize("name", BOTH)
def test_every_leaf_has_an_alternative_here(name: str) -> None:
    preset, alternatives = BOTH[name]
    assert _leaves(preset().model_dump(mode="json")) - NAMES_OF_A_KIND == set(alternatives)


@pytest.mark.parametrize(("name", "leaf"), [(name, leaf) for name, (_, leaves) in BOTH.items() for leaf in leaves])
def test_every_leaf_has_an_effect(name: str, leaf: str) -> None:
    preset, alternatives = BOTH[name]
    value, needed = alternatives[leaf]
    assert _effect(toy.method({**needed, leaf: value}, preset())) != _effect_before(name, json.dumps(needed))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model.blocks.heads": 3}, "multiple of 3"),
        ({"model.horizons": []}, "rising order"),
        ({"model.horizons": [0, 1]}, "rising order"),
        ({"model.horizons": [2, 1]}, "rising order"),
        ({"model.horizons": [1, 1]}, "rising order"),
        ({"model.context": 1}, "set context to 2 or more"),
        ({"model.predictor.injection": "film"}, "one command a horizon"),
        ({"model.encoder.positions": 4}, "encoder.positions to 8"),
        ({"model.horizons": [1, 40]}, "encoder.positions to 41"),
        (
            {
                "model.horizons": list(range(1, 200)),
                "model.encoder.positions": 512,
                "model.predictor.horizon_embedding": "slot",
            },
            "'value'",
        ),
    ],
)
def test_impossible_combinations_say_what_to_change(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        toy.method(changes)


def test_a_context_of_one_row_is_fine_without_instance_normalisation() -> None:
    assert toy.method({"model.context": 1, "model.instance_norm.kind": "none"}).model.context == 1


def test_unknown_settings_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"Run 7 .*head\.colour"):
        parse(JepaConfig, {"head": {"colour": "red"}}, "Run 7")


def test_a_network_and_an_objective_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="--preset crossfeed, mended or paper"):
        MethodConfig(model=JepaConfig())


def test_the_papers_parts_are_asked_for_by_name() -> None:
    assert mended().jepa.network == "jepa"
    assert mended().latents.trains == "latents"
    for part in ("jepa", "latents"):
        with pytest.raises(ConfigError, match="--preset mended"):
            getattr(crossfeed(), part)


@pytest.mark.parametrize("size", SensorConfig.sizes)
def test_sizes_of_the_sensor_network_keep_everything_else(size: Any) -> None:
    config = crossfeed(size).model
    assert isinstance(config, SensorConfig)
    assert (config.width, config.heads, config.encoder_layers, config.decoder_layers) == SensorConfig.sizes[size]
    assert config.sized("compact") == crossfeed().model
    assert parse_model(config.model_dump(mode="json"), "It") == config


def test_heads_that_do_not_divide_the_width_of_a_sensor_network_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 3"):
        toy.sensor_method({"model.heads": 3})


@pytest.mark.parametrize("size", JepaConfig.sizes)
def test_sizes_keep_everything_but_width_and_depth(size: Any) -> None:
    config = mended(size).jepa
    width, heads, temporal_layers, predictor_layers = JepaConfig.sizes[size]
    assert (config.blocks.width, config.blocks.heads) == (width, heads)
    assert (config.encoder.temporal_layers, config.predictor.layers) == (temporal_layers, predictor_layers)
    assert config.sized("base") == mended("base").model
    assert parse_model(config.model_dump(mode="json"), "It") == config


def test_an_unknown_size_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="tiny, compact, base"):
        JepaConfig().sized("huge")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="tiny, compact, base"):
        crossfeed("huge")  # type: ignore[arg-type]
