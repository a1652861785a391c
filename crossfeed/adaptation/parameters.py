"""Which parameters each way of adapting may move, for the world model and for any differentiable baseline."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from crossfeed.errors import ConfigError
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.model.sensors.members import MemberLinear

Mode = Literal["head", "predictor", "channels", "low-rank", "all"]
MODES: dict[Mode, str] = {
    "head": "the output head alone",
    "predictor": "predictor and head, as in the paper",
    "channels": "the channel embeddings alone: what each sensor means",
    "low-rank": "a low-rank correction of every linear map",
    "all": "everything that is trained by gradients",
}
# Auxiliary parts a forecast never passes through, and the teacher, which only ever follows.
NOT_FORECASTING = ("recovery.", "target_encoder.")
LINEAR = (nn.Linear, MemberLinear)


class Adaptable(Forecaster, Protocol):
    """A forecaster whose `predict` can be differentiated with respect to the parameters of a module.

    The module names the parts that each mode moves in an attribute `adaptation_parts`.
    """

    @property
    def module(self) -> nn.Module:
        """What adaptation may change."""


class LowRank(nn.Module):
    """A weight plus the product of two thin matrices; the first is zero, so nothing changes before learning.

    Weights of several members each have a correction of their own.
    """

    def __init__(self, weight: Tensor, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        *members, rows, columns = weight.shape
        rank = min(rank, rows, columns)
        self.up = nn.Parameter(torch.zeros(*members, rows, rank, dtype=weight.dtype, device=weight.device))
        down = torch.randn(*members, rank, columns, generator=generator, dtype=weight.dtype) / columns**0.5
        self.down = nn.Parameter(down.to(weight.device))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.up @ self.down


@dataclass(frozen=True)
class Prepared:
    """A copy of a forecaster that may learn, and the parameters that move."""

    forecaster: Adaptable
    parameters: tuple[nn.Parameter, ...]

    @property
    def count(self) -> int:
        """How many numbers may move."""
        return sum(parameter.numel() for parameter in self.parameters)


def prepare(forecaster: Adaptable, mode: Mode, rank: int = 4, seed: int = 0) -> Prepared:
    """Copy a forecaster and free the parameters of one mode; the original is never touched."""
    adapted = copy.deepcopy(forecaster)
    module = adapted.module.eval()
    free = _low_rank(module, rank, seed) if mode == "low-rank" else _named(module, mode, forecaster.name)
    chosen = {id(parameter) for parameter in free}
    for parameter in module.parameters():
        parameter.requires_grad_(id(parameter) in chosen)
    return Prepared(adapted, tuple(free))


def finish(prepared: Prepared) -> Adaptable:
    """Merge what was learned into plain weights and freeze them."""
    module = prepared.forecaster.module
    for layer in list(module.modules()):
        if isinstance(layer, LINEAR) and parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return prepared.forecaster


def _named(module: nn.Module, mode: Mode, name: str) -> list[nn.Parameter]:
    able = {
        key: parameter
        for key, parameter in module.named_parameters()
        if parameter.requires_grad and not key.startswith(NOT_FORECASTING)
    }
    if mode == "all":
        return list(able.values())
    parts: Mapping[str, tuple[str, ...]] = getattr(module, "adaptation_parts", {})
    chosen = [parameter for key, parameter in able.items() if key.startswith(parts.get(mode, ("\0",)))]
    if not chosen:
        raise ConfigError(
            f"Forecaster '{name}' has no part for adapting by '{mode}' ({MODES[mode]}).",
            expected="'low-rank' or 'all', which every differentiable forecaster has",
        )
    return chosen


def _low_rank(module: nn.Module, rank: int, seed: int) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    free: list[nn.Parameter] = []
    for key, layer in list(module.named_modules()):
        if isinstance(layer, LINEAR) and layer.weight.requires_grad and not key.startswith(NOT_FORECASTING):
            correction = LowRank(layer.weight, rank, generator)
            parametrize.register_parametrization(layer, "weight", correction)
            free += [correction.up, correction.down]
    return free
