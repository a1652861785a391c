"""The library's AdamW over exactly the parameters a stage trains, each in one group: decayed or not."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossfeed.model.interface import Stage
from crossfeed.model.sensors.members import MemberLinear
from crossfeed.model.world_model import WorldModel
from crossfeed.training.config import TrainingConfig


def adamw(
    groups: Sequence[tuple[Sequence[Tensor], float]], learning_rate: Tensor, captured: bool = False
) -> torch.optim.AdamW:
    """Parameters with their weight decay; the learning rate is a tensor that others may change between two steps."""
    parts = [{"params": list(parameters), "weight_decay": decay} for parameters, decay in groups]
    return torch.optim.AdamW(parts, lr=learning_rate, fused=True, capturable=captured)


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
