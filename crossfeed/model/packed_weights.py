"""A copy of the paper's network for forecasting on a CPU: weights laid out once for it, optionally in bfloat16.

Multiplying a few rows with large weights is bound by reading and rearranging the weights; doing that once instead of
in every forecast makes a live forecast about a quarter quicker, and halving their size helps again where the CPU has
bfloat16 units. Sums, norms and the physical head stay in float32. The members of a sensor network share batched
products, which packing would not make quicker.
"""

import copy
from collections.abc import Callable
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn

from crossfeed.errors import CheckpointError, ConfigError
from crossfeed.model.jepa.model import JepaModel
from crossfeed.model.world_model import WorldModel

Precision = Literal["float32", "bfloat16"]
SMALLEST_WIDTH = 64  # below, rearranging costs more than it saves


class PackedLinear(nn.Module):
    """A linear layer that can only be applied: its weight is opaque and not part of any state."""

    def __init__(self, linear: nn.Linear, precision: Precision) -> None:
        super().__init__()
        self.dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().to(self.dtype))
        self._bias = linear.bias.detach().to(self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x.to(self.dtype), self._weight, self._bias, "none", [], "")
        return y.to(x.dtype)

    def state_dict(self, *_: Any, **__: Any) -> NoReturn:
        raise CheckpointError("A packed model cannot be saved.", remedy="Save the model it was packed from.")


def packed(model: WorldModel, precision: Precision = "float32") -> WorldModel:
    """A copy of the model for forecasting; the model itself where its weights cannot or need not be packed."""
    if not isinstance(model, JepaModel):
        if precision == "bfloat16":
            raise ConfigError(
                "The sensor network computes in float32 on a CPU.",
                expected="precision 'float32', or the paper's network",
                remedy="Export it with --int8 where it must be quicker.",
            )
        return model
    available: Callable[[], bool] = torch.backends.mkldnn.is_available
    already = any(isinstance(module, PackedLinear) for module in model.modules())
    if already or model.device.type != "cpu" or not available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return model
    if precision == "bfloat16" and not has_bfloat16():
        raise ConfigError(
            "This CPU cannot read weights packed in bfloat16.",
            expected="a CPU with avx_ne_convert, or with avx512bw, avx512vl and avx512dq",
            remedy="Use precision 'float32' here.",
        )
    twin = copy.deepcopy(model).eval().requires_grad_(False)
    for part in (twin.context_encoder, twin.predictor):
        _pack(part, precision)
    return twin


def has_bfloat16() -> bool:
    """Whether this CPU has the instructions for packed bfloat16 weights."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _pack(module: nn.Module, precision: Precision) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.in_features >= SMALLEST_WIDTH:
            setattr(module, name, PackedLinear(child, precision))
        else:
            _pack(child, precision)
