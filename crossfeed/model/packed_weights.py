"""A copy of a network for forecasting on a CPU: weights laid out once for it, optionally in bfloat16.

Multiplying a few rows with large weights is bound by reading and rearranging the weights; doing that once instead of
in every forecast makes a live forecast of the paper's network about a quarter quicker, and halving their size helps
again where the CPU has bfloat16 units. The members of a sensor network share batched products, which only bfloat16
makes quicker. Sums, norms, the features of a window and the head stay in float32.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn

from crossfeed.errors import CheckpointError, ConfigError
from crossfeed.model.jepa.model import JepaModel
from crossfeed.model.sensors.head import MixtureHead
from crossfeed.model.sensors.members import MemberLinear
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel

Precision = Literal["float32", "bfloat16"]
SMALLEST_WIDTH = 64  # below, rearranging costs more than it saves


class PackedLinear(nn.Module):
    """A linear layer that can only be applied, with what follows it: its weight is opaque and not part of any state."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor, precision: Precision, then: str = "none") -> None:
        super().__init__()
        self.dtype, self._then = torch.bfloat16 if precision == "bfloat16" else torch.float32, then
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight_OI.detach().to(self.dtype))
        self._bias = bias_O.detach().to(self.dtype)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.to(self.dtype), self._weight, self._bias, self._then, [], "none"
        )
        return y.to(x.dtype)

    def state_dict(self, *_: Any, **__: Any) -> NoReturn:
        raise CheckpointError("A packed model cannot be saved.", remedy="Save the model it was packed from.")


class PackedMembers(nn.Module):
    """Linear maps of several members, one after another with GELU in between, for each member in turn."""

    def __init__(self, maps: Sequence[MemberLinear], precision: Precision) -> None:
        super().__init__()
        ends = ["gelu"] * (len(maps) - 1) + ["none"]
        self._members = nn.ModuleList(
            nn.Sequential(
                *(PackedLinear(one.weight[number], one.bias[number], precision, end) for one, end in zip(maps, ends))
            )
            for number in range(len(maps[0].weight))
        )
        self._dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32

    def forward(self, x_EI: Tensor) -> Tensor:
        said = [member(x_I) for member, x_I in zip(self._members, x_EI.to(self._dtype), strict=True)]
        return torch.stack(said).to(x_EI.dtype)


def packed(model: WorldModel, precision: Precision = "float32") -> WorldModel:
    """A copy of the model for forecasting; the model itself where its weights cannot or need not be packed."""
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
    parts: tuple[nn.Module, ...] = ()
    if isinstance(twin, SensorModel):
        parts = (twin.network,)
    elif isinstance(twin, JepaModel):
        parts = (twin.context_encoder, twin.predictor)
    for part in parts:
        _pack(part, precision)
    return twin


def has_bfloat16() -> bool:
    """Whether this CPU has the instructions for packed bfloat16 weights."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _pack(module: nn.Module, precision: Precision) -> None:
    for name, child in module.named_children():
        maps = [
            one for one in (child if isinstance(child, nn.Sequential) else [child]) if isinstance(one, MemberLinear)
        ]
        if maps:
            setattr(module, name, PackedMembers(maps, precision))
        elif isinstance(child, nn.Linear) and child.in_features >= SMALLEST_WIDTH:
            setattr(module, name, PackedLinear(child.weight, child.bias, precision))
        elif not isinstance(child, MixtureHead):
            _pack(child, precision)
