"""The fast path on NVIDIA GPUs: present tokens only, attention kernels, dropout that a compiler can fuse."""

import importlib.util

import torch
from torch import Tensor, nn

from crossfeed.model.activation import DroppedActivation
from crossfeed.model.attention import CrossAttention, Kernels, SelfAttention
from crossfeed.model.blocks import Block
from crossfeed.model.dropout import Dropout
from crossfeed.model.encoder import Encoder, RowEncoder
from crossfeed.model.world_model import WorldModel


def can_accelerate(device: torch.device) -> bool:
    """Whether the kernels can run there."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def pack_tokens(model: WorldModel, share: float, lost: Tensor | None = None) -> None:
    """Let both encoders compute on present tokens; `share` of all tokens is room enough for a training batch.

    Tokens that find no room are counted in `lost`, on the device.
    """
    for module in model.modules():
        if isinstance(module, Encoder | RowEncoder):
            module.packed = True
    model.context_encoder.row.share, model.context_encoder.row.lost = share, lost


def hash_dropout(model: WorldModel, seed: Tensor) -> None:
    """Let dropout draw by hash from `seed`, a number on the device that changes, in one piece with the activations."""
    for number, module in enumerate(model.modules()):
        if isinstance(module, Dropout):
            module.seed, module.salt = seed, number
    for module in model.modules():
        if isinstance(module, Block) and isinstance(drop := module.feed_forward[2], Dropout):
            module.feed_forward[1] = DroppedActivation(module.feed_forward[1], drop)
            module.feed_forward[2] = nn.Identity()


def use_kernels(model: WorldModel, seed: Tensor) -> None:
    """Give attention and the mean of a row their kernels; dropout of attention weights draws from `seed`."""
    from crossfeed.model import kernel_operators as operators

    for number, module in enumerate(model.modules()):
        if isinstance(module, SelfAttention | CrossAttention):
            module.kernels = Kernels(operators.attend_packed, operators.attend_between, seed, number)
        if isinstance(module, RowEncoder):
            module.mean = operators.mean_of_rows
