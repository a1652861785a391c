"""Learning rate and teacher momentum as functions of the step, precomputed so that a step never asks the host."""

import math

import torch
from torch import Tensor

from crossfeed.training.config import TrainingConfig


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
