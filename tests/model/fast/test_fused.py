"""Blocks by way of row functions: losses and gradients are those of the plain network.

Here the row functions are their plain references; `fast_path_check.py` runs the same cases by kernels. Dropout draws by
hash on both paths, so it drops the same entries; of attention weights, which kernels draw differently, none is dropped.
"""

from types import ModuleType
from typing import Any

import pytest
import torch

from crossfeed.model.fast import acceleration as fast
from crossfeed.model.fast import row_reference
from crossfeed.model.fast.fused import WeightCopies
from crossfeed.model.jepa.objectives import draw_views, losses, total
from crossfeed.model.parts.attention import CrossAttention, SelfAttention
from crossfeed.model.parts.blocks import Block
from crossfeed.model.presets import MethodConfig
from crossfeed.model.world_model import WorldModel
from tests.model import toy

CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "GELU, cross-attention, no dropout": ({"model.blocks.dropout": 0.0}, True),
    "GELU, cross-attention, dropout": ({"model.blocks.dropout": 0.3, "model.blocks.width": 24}, True),
    "ReLU, commands added, dropout": (
        {"model.blocks.dropout": 0.2, "model.blocks.activation": "relu", "model.predictor.injection": "token"},
        True,
    ),
    "ReLU, evaluation": ({"model.blocks.dropout": 0.2, "model.blocks.activation": "relu"}, False),
    "post-norm": ({"model.blocks.dropout": 0.2, "model.blocks.norm": "post"}, True),
}


def prepared(config: MethodConfig, fast_path: bool, training: bool, rows: ModuleType = row_reference) -> WorldModel:
    model = toy.model(config).train(training)
    seeds = fast.dropout_seeds(model, torch.device("cpu"))
    seeds.begin(7)
    fast.pack_tokens(model, 1.0)
    fast.hash_dropout(model, seeds)
    if fast_path:
        fast.use_row_kernels(model, torch.float32, rows)
        if rows is not row_reference:
            fast.use_attention_kernels(model, seeds)
    for module in model.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            module.dropout = 0.0
    return model


def gradients(model: WorldModel, config: MethodConfig) -> dict[str, torch.Tensor]:
    batch = toy.batch(4)
    views = draw_views(batch, config.masks, config.objectives.schema_keep, torch.Generator().manual_seed(0))
    terms = losses(model, batch, views, "finetune", config.objectives, torch.Generator().manual_seed(1))
    total(terms, config.objectives.active("finetune")).backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {**{name: term.detach() for name, term in terms.items()}, **found}


def check(case: str, rows: ModuleType = row_reference) -> None:
    """One case on the plain and on the fast path."""
    changes, training = CASES[case]
    config = toy.method(changes)
    exact = gradients(prepared(config, False, training), config)
    found = gradients(prepared(config, True, training, rows), config)
    assert exact.keys() == found.keys(), case
    for name, value in exact.items():
        assert torch.allclose(found[name], value, rtol=2e-3, atol=2e-5), (case, name, found[name], value)


@pytest.mark.parametrize("case", CASES)
def test_the_fast_path_has_the_losses_and_gradients_of_the_plain_one(case: str) -> None:
    check(case)


def test_blocks_that_norm_first_are_fused_in_all_parts() -> None:
    def fused(model: WorldModel) -> list[bool]:
        return [module.fused is not None for module in model.modules() if isinstance(module, Block)]

    assert all(fused(prepared(toy.method(), True, True)))
    assert not any(fused(prepared(toy.method({"model.blocks.norm": "post"}), True, True)))


def test_copies_of_weights_follow_the_weights() -> None:
    """A model that got other weights (a resume, the best epoch) must not go on with copies of the old ones."""
    model, other = prepared(toy.method(), True, False), toy.model(toy.method(), seed=5)
    batch = toy.batch()
    before = model(batch).distribution.mean
    model.load_state_dict(other.state_dict())
    after = model(batch).distribution.mean
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, other(batch).distribution.mean, rtol=1e-4, atol=1e-5)


def test_products_take_the_type_of_the_copies() -> None:
    block = Block(toy.method().model.blocks).eval()
    copies = WeightCopies(block, torch.bfloat16, row_reference)
    copies.refresh()
    hidden = copies.linear(torch.randn(3, 16).bfloat16(), block.attention.query_key_value)
    assert hidden.dtype == torch.bfloat16
