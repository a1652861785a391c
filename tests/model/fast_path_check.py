"""The whole fast path in Triton's interpreter against the plain one: losses and gradients, run as a script of its own.

Dropout draws by hash in both, so it drops the same entries; attention weights, which the two draw differently, keep theirs.
"""

import torch
from torch import nn

from crossfeed.model import acceleration as fast
from crossfeed.model.attention import CrossAttention, SelfAttention
from crossfeed.model.objectives import losses, total
from crossfeed.model.presets import MethodConfig
from crossfeed.model.views import draw_views
from crossfeed.model.world_model import WorldModel
from crossfeed.training.adamw import AdamW
from crossfeed.training.flat_update import FlatUpdate, update_flat
from crossfeed.training.optimiser import trained_parameters
from tests.model import toy

CASES = {
    "GELU, cross-attention, no dropout": ({"model.blocks.dropout": 0.0}, True),
    "GELU, cross-attention, dropout": ({"model.blocks.dropout": 0.3, "model.blocks.width": 24}, True),
    "ReLU, commands added, dropout": (
        {"model.blocks.dropout": 0.2, "model.blocks.activation": "relu", "model.predictor.injection": "token"},
        True,
    ),
    "ReLU, evaluation": ({"model.blocks.dropout": 0.2, "model.blocks.activation": "relu"}, False),
    "post-norm": ({"model.blocks.dropout": 0.2, "model.blocks.norm": "post"}, True),
}


def prepared(config: MethodConfig, kernels: bool, training: bool) -> WorldModel:
    model = toy.model(config).train(training)
    seeds = fast.dropout_seeds(model, torch.device("cpu"))
    seeds.begin(7)
    fast.pack_tokens(model, 1.0)
    fast.hash_dropout(model, seeds)
    if kernels:
        fast.use_attention_kernels(model, seeds)
        fast.use_row_kernels(model, torch.float32)
    for module in model.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            module.dropout = 0.0
    return model


def gradients(model: WorldModel, config: MethodConfig) -> dict[str, torch.Tensor]:
    batch = toy.batch(4)
    views = draw_views(batch, config.masks, config.objectives.schema_keep, torch.Generator().manual_seed(0))
    terms = losses(model, batch, views, "finetune", config.objectives, torch.Generator().manual_seed(1))
    total(terms, "finetune", config.objectives).backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    return {**{name: term.detach() for name, term in terms.items()}, **found}


def check_update() -> None:
    """Some steps of the update by its kernel and by its reference."""
    from crossfeed.training.update_kernel import update_flat as kernel

    trails = []
    for update in (update_flat, kernel):
        model = toy.model()
        named = trained_parameters(model, "finetune")
        optimiser = AdamW([(list(named.values()), 0.01)], torch.tensor(0.1))
        flat = FlatUpdate(model, optimiser, 1.0, update)
        draws = torch.Generator().manual_seed(0)
        for _ in range(3):
            for parameter in named.values():
                parameter.grad = torch.randn(parameter.shape, generator=draws)
            flat(torch.tensor(0.9))
        trails.append(torch.cat([flat.weight_P, flat.first_P, flat.second_P, flat.teacher_E]))
    torch.testing.assert_close(trails[1], trails[0], rtol=1e-5, atol=1e-7)


def main() -> None:
    for case, (changes, training) in CASES.items():
        config = toy.method(changes)
        exact, found = (gradients(prepared(config, kernels, training), config) for kernels in (False, True))
        assert exact.keys() == found.keys(), case
        for name, value in exact.items():
            torch.testing.assert_close(found[name], value, rtol=2e-3, atol=2e-5, msg=lambda m: f"{case}, {name}: {m}")
    fused = [module for module in prepared(toy.method(), True, True).modules() if getattr(module, "fused", None)]
    assert len(fused) > 2, "blocks run by row kernels"
    assert all(isinstance(module, nn.Module) for module in fused)
    check_update()


if __name__ == "__main__":
    main()
