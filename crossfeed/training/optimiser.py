"""What moves the weights of a stage: the library's AdamW, schedules, and the average that is validated and kept.

Schedules are computed for all steps at once, so that a step never asks the host.
"""

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from crossfeed.model.interface import Stage
from crossfeed.model.sensors.members import MemberLinear
from crossfeed.model.world_model import WorldModel
from crossfeed.training.config import TrainingConfig


class _AdamW(torch.optim.AdamW):
    """The library's own, without the marks for its compiler: the first of them imports it, seconds of a core."""

    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


def adamw(
    groups: Sequence[tuple[Sequence[Tensor], float]], learning_rate: Tensor, captured: bool = False
) -> torch.optim.AdamW:
    """Parameters with their weight decay; the learning rate is a tensor that others may change between two steps."""
    parts = [{"params": list(parameters), "weight_decay": decay} for parameters, decay in groups]
    return _AdamW(parts, lr=learning_rate, fused=True, capturable=captured)


def parameter_groups(model: WorldModel, stage: Stage, decay_everything: bool) -> dict[str, dict[str, nn.Parameter]]:
    """Which trained parameters are decayed and which are not; only weights of linear maps are, unless all are."""
    linear = {
        f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear | MemberLinear)
    }
    groups: dict[str, dict[str, nn.Parameter]] = {"decayed": {}, "plain": {}}
    for name, parameter in model.trained(stage).items():
        groups["decayed" if decay_everything or name in linear else "plain"][name] = parameter
    return groups


def build_optimiser(
    model: WorldModel, stage: Stage, config: TrainingConfig, learning_rate: Tensor, captured: bool = False
) -> torch.optim.AdamW:
    """AdamW whose learning rate lies on the device, so that the step can change it without the host."""
    groups = parameter_groups(model, stage, config.decay_everything)
    decay = {"decayed": config.weight_decay, "plain": 0.0}
    return adamw([(list(part.values()), decay[kind]) for kind, part in groups.items() if part], learning_rate, captured)


class WeightAverage:
    """A copy of trained parameters that follows them slowly; lives on their device and never asks the host."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._names, self._own = list(parameters), list(parameters.values())
        self._average = [parameter.detach().clone() for parameter in self._own]

    @torch.no_grad()
    def follow(self, weight: Tensor) -> None:
        """Take the weights of a step in, with this share (a tensor, so that a captured step can change it)."""
        # Not by `_foreach_lerp_`: it would ask the host for the weight.
        apart = torch._foreach_sub(self._own, self._average)
        torch._foreach_mul_(apart, weight)
        torch._foreach_add_(self._average, apart)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the model has the average as its weights."""
        own = [parameter.detach().clone() for parameter in self._own]
        self._set(self._average)
        try:
            yield
        finally:
            self._set(own)

    def tensors(self) -> dict[str, Tensor]:
        """The average as it is now, by the names of the parameters; it may be saved while training goes on."""
        return {name: average.clone() for name, average in zip(self._names, self._average, strict=True)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with a saved average."""
        torch._foreach_copy_(self._average, [tensors[name] for name in self._names])

    @torch.no_grad()
    def _set(self, weights: list[Tensor]) -> None:
        torch._foreach_copy_(self._own, weights)


def learning_rates(config: TrainingConfig, steps: int) -> Tensor:
    """Linear warm-up over `warmup_steps` from 1/warmup_steps of the rate, then constant or down to 0 as a cosine."""
    step_S = torch.arange(1, steps + 1, dtype=torch.float64)
    shape_S = (step_S / max(config.warmup_steps, 1)).clamp(max=1.0)
    if config.schedule == "cosine":
        shape_S = shape_S * 0.5 * (1.0 + torch.cos(math.pi * (step_S - 1.0) / steps))
    return (config.learning_rate * shape_S).float()


def average_weights(config: TrainingConfig, steps: int) -> Tensor:
    """How much of each step's weights enters their average: much in the beginning, 1 - decay in the end."""
    step_S = torch.arange(1, steps + 1, dtype=torch.float64)
    return (1.0 - torch.minimum(step_S / (step_S + 9.0), torch.full_like(step_S, config.average_decay))).float()


def momenta(config: TrainingConfig, steps: int) -> Tensor:
    """Fixed teacher momentum, or linear in the step from the first to the final value."""
    final = config.ema_momentum if config.ema_final_momentum is None else config.ema_final_momentum
    return torch.linspace(config.ema_momentum, final, steps, dtype=torch.float64).float()
