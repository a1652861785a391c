"""The fast path on NVIDIA GPUs: present tokens only, attention kernels, dropout that a compiler can fuse."""

import importlib.util
from typing import Any

import torch
from torch import Tensor, nn

from crossfeed.model.activation import DroppedActivation
from crossfeed.model.attention import CrossAttention, Kernels, SelfAttention
from crossfeed.model.blocks import Block
from crossfeed.model.dropout import Dropout, Seeds
from crossfeed.model.encoder import Encoder, RowEncoder, lay_out
from crossfeed.model.objectives import Terms, loss_terms
from crossfeed.model.world_model import WorldModel

# Small kernels are merged: casts of weights and gradients alone would be 300 of them a step. Shapes are fixed.
COMPILE: dict[str, Any] = {"dynamic": False, "options": {"combo_kernels": True}}
SHAPES = 64  # of one function that are compiled in a process before the compiler gives up


def can_accelerate(device: torch.device) -> bool:
    """Whether the kernels can run there."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def dropout_seeds(model: WorldModel, device: torch.device) -> Seeds:
    """A number for each place of a model that may drop entries."""
    return Seeds(sum(1 for _ in model.modules()), device)


def pack_tokens(model: WorldModel, share: float, lost: Tensor | None = None) -> None:
    """Let both encoders compute on present tokens; `share` of all tokens is room enough for a training batch.

    Tokens that find no room are counted in `lost`, on the device.
    """
    for module in model.modules():
        if isinstance(module, Encoder | RowEncoder):
            module.packed = True
    model.context_encoder.row.share, model.context_encoder.row.lost = share, lost


def hash_dropout(model: WorldModel, seeds: Seeds) -> None:
    """Let dropout draw by hash from numbers on the device, in one piece with the activations."""
    for number, module in enumerate(model.modules()):
        if isinstance(module, Dropout):
            module.seed = seeds[number]
    for module in model.modules():
        if isinstance(module, Block) and isinstance(drop := module.feed_forward[2], Dropout):
            module.feed_forward[1] = DroppedActivation(module.feed_forward[1], drop)
            module.feed_forward[2] = nn.Identity()


def use_kernels(model: WorldModel, seeds: Seeds) -> None:
    """Give attention and the mean of a row their kernels; dropout of attention weights draws from `seeds`."""
    from crossfeed.model import kernel_operators as operators

    for number, module in enumerate(model.modules()):
        if isinstance(module, SelfAttention | CrossAttention):
            module.kernels = Kernels(operators.attend_packed, operators.attend_between, seeds[number])
        if isinstance(module, RowEncoder):
            module.mean = operators.mean_of_rows


def compile_parts(model: WorldModel) -> Terms:
    """Compile blocks and token embedding in place; gives the compiled loss terms.

    What is compiled for one block serves all that have its shapes, in both stages: a network of twelve blocks and a
    teacher takes a quarter of the time that compiling it as a whole takes.
    """
    torch._dynamo.config.recompile_limit = max(SHAPES, torch._dynamo.config.recompile_limit)
    for module in model.modules():
        if isinstance(module, Block):
            module.compile(**COMPILE)
        if isinstance(module, RowEncoder):
            module.lay_out = torch.compile(lay_out, **COMPILE)
    compiled: Terms = torch.compile(loss_terms, **COMPILE)
    return compiled
