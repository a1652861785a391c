"""The fast path on NVIDIA GPUs: present tokens only, attention kernels, dropout that a compiler can fuse."""

import importlib.util

import torch
from torch import Tensor

from crossfeed.model.attention import CrossAttention, Kernels, SelfAttention
from crossfeed.model.dropout import Dropout
from crossfeed.model.encoder import Encoder, RowEncoder
from crossfeed.model.world_model import WorldModel


def can_accelerate(device: torch.device) -> bool:
    """Whether the kernels can run there."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def pack_tokens(model: WorldModel, share: float) -> None:
    """Let both encoders compute on present tokens; `share` of all tokens is room enough for a training batch."""
    for module in model.modules():
        if isinstance(module, Encoder | RowEncoder):
            module.packed = True
    model.context_encoder.row.share = share


def use_kernels(model: WorldModel, seed: Tensor) -> None:
    """Give attention its kernels and let dropout draw by hash from `seed`, a number on the device that changes."""
    from crossfeed.model import kernel_operators as operators

    for number, module in enumerate(model.modules()):
        if isinstance(module, Dropout):
            module.seed, module.salt = seed, number
        if isinstance(module, SelfAttention | CrossAttention):
            module.kernels = Kernels(operators.attend_packed, operators.attend_between, seed, number)
        if isinstance(module, RowEncoder):
            module.mean = operators.mean_of_rows
