"""The fast path on NVIDIA GPUs: present tokens only, attention and row kernels, dropout by hash."""

import importlib.util
from types import ModuleType

import torch
from torch import Tensor, nn

from crossfeed.model.fast.fused import WeightCopies
from crossfeed.model.jepa.encoder import Encoder, RowEncoder
from crossfeed.model.jepa.model import JepaModel
from crossfeed.model.parts.attention import CrossAttention, Kernels, SelfAttention
from crossfeed.model.parts.blocks import Block
from crossfeed.model.parts.dropout import Dropout, Seeds


def can_accelerate(device: torch.device) -> bool:
    """Whether the kernels can run there."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def dropout_seeds(model: nn.Module, device: torch.device) -> Seeds:
    """A number for each place of a model that may drop entries."""
    return Seeds(sum(1 for _ in model.modules()), device)


def pack_tokens(model: JepaModel, share: float, lost: Tensor | None = None) -> None:
    """Let both encoders compute on present tokens; `share` of all tokens is room enough for a training batch.

    Tokens that find no room are counted in `lost`, on the device.
    """
    for module in model.modules():
        if isinstance(module, Encoder | RowEncoder):
            module.packed = True
    model.context_encoder.row.share, model.context_encoder.row.lost = share, lost


def hash_dropout(model: JepaModel, seeds: Seeds) -> None:
    """Let dropout draw by hash from numbers on the device."""
    for number, module in enumerate(model.modules()):
        if isinstance(module, Dropout):
            module.seed = seeds[number]


def use_attention_kernels(model: JepaModel, seeds: Seeds) -> None:
    """Give attention and the mean of a row their kernels; dropout of attention weights draws from `seeds`."""
    from crossfeed.model.fast import kernel_operators as operators

    for number, module in enumerate(model.modules()):
        if isinstance(module, SelfAttention | CrossAttention):
            module.kernels = Kernels(operators.attend_packed, operators.attend_between, seeds[number])
        if isinstance(module, RowEncoder):
            module.mean = operators.mean_of_rows


def use_row_kernels(model: JepaModel, dtype: torch.dtype, rows: ModuleType) -> None:
    """Let blocks that norm first and packed token embeddings run by row kernels, with products of this type.

    `rows` is `row_operators`, or its reference. Dropout must draw by hash, because the kernels draw in the same way.
    """
    for part in (model.context_encoder, model.target_encoder.encoder, model.predictor):
        copies = WeightCopies(part, dtype, rows)
        part.begin = copies.refresh
        for module in part.modules():
            if isinstance(module, Block) and module.norm_first:
                module.fused = copies.run
            if isinstance(module, RowEncoder):
                module.embed = copies.embed
