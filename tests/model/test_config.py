"""Configurations: what cannot work is refused with the sentence that fixes it, and every leaf has an effect."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from crossfeed.errors import ConfigError
from crossfeed.model.config import SIZES, ModelConfig, parse
from crossfeed.model.live import LiveForecaster
from crossfeed.model.objectives import losses
from crossfeed.model.presets import MethodConfig, crossfeed
from crossfeed.model.views import draw_views
from tests.model import toy

# For every leaf of the method: another value, and what must hold for the leaf to matter.
ALTERNATIVES: dict[str, tuple[Any, dict[str, Any]]] = {
    "model.context": (7, {}),
    "model.horizons": ((1, 3, 4), {}),
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
    "model.predictor.injection": ("film", {}),
    "model.predictor.conditioning": ("mean", {}),
    "model.predictor.horizon_embedding": ("slot", {}),
    "model.head.likelihood": ("student_t", {}),
    "model.head.beta": (0.9, {}),
    "model.head.variance": ("hard_clamp", {}),
    "model.head.limit": (0.5, {}),
    "model.head.noise_floor": (0.5, {}),
    "model.instance_norm.kind": ("none", {}),
    "model.instance_norm.epsilon": (0.1, {"model.instance_norm.kind": "pure"}),
    "model.instance_norm.floor": (3.0, {"model.instance_norm.kind": "floored"}),
    "model.instance_norm.threshold": (3.0, {"model.instance_norm.kind": "blended"}),
    "model.instance_norm.reach": (0.5, {"model.instance_norm.kind": "anchored"}),
    "masks.mode": ("random", {}),
    "masks.ratio": (0.8, {"masks.mode": "random"}),
    "masks.channel_drop": (0.6, {}),
    "objectives.weights.latent": (0.0, {}),
    "objectives.weights.vicreg": (0.0, {}),
    "objectives.weights.sigreg": (1.0, {"objectives.weights.vicreg": 0.0}),
    "objectives.weights.schema": (0.0, {}),
    "objectives.weights.recovery": (0.0, {}),
    "objectives.weights.physical": (0.0, {}),
    "objectives.latent_loss": ("mse", {}),
    "objectives.latent_layer_norm": (True, {}),
    "objectives.latent_target": ("pooled", {}),
    "objectives.regularise": ("pooled", {}),
    "objectives.placement": ("context", {}),
    "objectives.vicreg.variance": (5.0, {}),
    "objectives.vicreg.covariance": (5.0, {}),
    "objectives.vicreg.epsilon": (0.1, {}),
    "objectives.sigreg.slices": (16, {"objectives.weights.vicreg": 0.0, "objectives.weights.sigreg": 1.0}),
    "objectives.sigreg.knots": (5, {"objectives.weights.vicreg": 0.0, "objectives.weights.sigreg": 1.0}),
    "objectives.sigreg.extent": (1.0, {"objectives.weights.vicreg": 0.0, "objectives.weights.sigreg": 1.0}),
    "objectives.schema_keep": (0.2, {}),
}


def _leaves(content: dict[str, Any], prefix: str = "") -> set[str]:
    found = set()
    for name, value in content.items():
        path = f"{prefix}{name}"
        found |= _leaves(value, f"{path}.") if isinstance(value, dict) else {path}
    return found


def _effect(config: MethodConfig) -> dict[str, Any]:
    """What a configuration visibly does: shapes, buffers, and the loss terms of one training step in each stage."""
    windows = toy.batch()
    windows.m_BKC[0, 2] = False
    net = toy.model(config)
    tail = -net.config.context
    windows = replace(
        windows, x_BKC=windows.x_BKC[:, tail:], m_BKC=windows.m_BKC[:, tail:], a_BKA=windows.a_BKA[:, tail:]
    )
    seen: dict[str, Any] = {"shapes": {name: tuple(value.shape) for name, value in net.state_dict().items()}}
    seen["buffers"] = {name: buffer.double().sum().item() for name, buffer in net.named_buffers()}
    seen["rows needed"] = LiveForecaster(net).missing_rows
    net.train()
    for stage in ("pretrain", "finetune"):
        views = draw_views(windows, config.masks, config.objectives.schema_keep, torch.Generator().manual_seed(0))
        torch.manual_seed(1)
        terms = losses(net, windows, views, stage, config.objectives, torch.Generator().manual_seed(2))
        seen |= {f"{stage}.{name}": term.item() for name, term in terms.items()}
    return seen


def test_every_leaf_has_an_alternative_here() -> None:
    assert _leaves(MethodConfig().model_dump(mode="json")) == set(ALTERNATIVES)


@pytest.mark.parametrize("leaf", ALTERNATIVES)
def test_every_leaf_has_an_effect(leaf: str) -> None:
    value, needed = ALTERNATIVES[leaf]
    before, after = toy.method(needed), toy.method({**needed, leaf: value})
    assert _effect(before) == _effect(before)
    assert _effect(before) != _effect(after)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model.blocks.heads": 3}, "multiple of 3"),
        ({"model.horizons": []}, "rising order"),
        ({"model.horizons": [0, 1]}, "rising order"),
        ({"model.horizons": [2, 1]}, "rising order"),
        ({"model.horizons": [1, 1]}, "rising order"),
        ({"model.context": 1}, "set context to 2 or more"),
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
        parse(ModelConfig, {"head": {"colour": "red"}}, "Run 7")


@pytest.mark.parametrize("size", SIZES)
def test_sizes_keep_everything_but_width_and_depth(size: Any) -> None:
    config = crossfeed(size).model
    width, heads, temporal_layers, predictor_layers = SIZES[size]
    assert (config.blocks.width, config.blocks.heads) == (width, heads)
    assert (config.encoder.temporal_layers, config.predictor.layers) == (temporal_layers, predictor_layers)
    assert config.sized("base") == crossfeed("base").model
    assert ModelConfig.model_validate_json(config.model_dump_json()) == config


def test_an_unknown_size_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="tiny, compact, base"):
        ModelConfig().sized("huge")  # type: ignore[arg-type]
