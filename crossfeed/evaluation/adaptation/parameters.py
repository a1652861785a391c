"""Which parameters each way of adapting may move, for any differentiable forecaster, and one step of adaptation.

The mean learns from what was observed, the spread from errors made in advance.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from crossfeed.errors import ConfigError, ForecastError
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.model.distribution import Distribution
from crossfeed.model.sensors.members import MemberLinear
from crossfeed.windows.windows import WindowBatch

Mode = Literal["head", "predictor", "channels", "low-rank", "all"]
Loss = Literal["likelihood", "squared"]
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


@torch.no_grad()
def errors_in_advance(forecaster: Adaptable, batch: WindowBatch) -> Tensor:
    """What the forecaster gets wrong as it is now; zero where nothing was observed."""
    return observed_errors(forecaster.predict(batch), batch)


def observed_errors(forecast: Distribution, batch: WindowBatch) -> Tensor:
    """The errors of a forecast whose targets are in the batch; zero where nothing was observed."""
    return torch.where(batch.future_m_BHC, batch.future_x_BHC - forecast.mean, 0.0).detach()


def likelihood(name: str, forecast: Distribution, batch: WindowBatch, ahead_BHC: Tensor) -> Tensor:
    """The likelihood of present targets, and of the errors in advance about them; absent channels have no part."""
    present = batch.future_m_BHC
    x_BHC = torch.where(present, batch.future_x_BHC, 0.0)
    towards_truth = forecast.fixed_shape().nll(x_BHC)
    about_errors = forecast.with_mean(x_BHC - ahead_BHC).nll(x_BHC)
    if towards_truth is None or about_errors is None:
        raise ForecastError(
            f"Forecaster '{name}' claims no density, so it cannot be adapted by likelihood.",
            expected="a Gaussian or mixture forecast",
        )
    return torch.where(present, towards_truth + about_errors, 0.0).sum() / present.sum().clamp_min(1)


def squared(forecast: Distribution, batch: WindowBatch) -> Tensor:
    """The authors' loss: squared errors of the mean over every channel, an absent one being taken as zero."""
    x_BHC = torch.where(batch.future_m_BHC, batch.future_x_BHC, 0.0)
    return (forecast.mean - x_BHC).square().mean()


def update(
    prepared: Prepared, batch: WindowBatch, ahead_BHC: Tensor, optimiser: torch.optim.Optimizer, clip_norm: float,
    minimised: Loss = "likelihood",
) -> None:  # fmt: skip
    """One step on the targets of a batch; `ahead_BHC` are the errors in advance, which the squared error ignores."""
    name = prepared.forecaster.name
    with torch.enable_grad():
        forecast = prepared.forecaster.predict(batch)
        loss = squared(forecast, batch) if minimised == "squared" else likelihood(name, forecast, batch, ahead_BHC)
    if not bool(torch.isfinite(loss)):
        raise ForecastError(
            f"Adapting '{name}' led to a loss that is no number.", remedy="Use a smaller learning rate."
        )
    optimiser.zero_grad()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(prepared.parameters, clip_norm)
    optimiser.step()
