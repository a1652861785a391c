"""Learning rate and teacher momentum as functions of the step, precomputed so that a step never asks the host."""

import torch
from torch import Tensor

from crossfeed.training.config import TrainingConfig


def learning_rates(config: TrainingConfig, steps: int) -> Tensor:
    """Linear warm-up over `warmup_steps` from 1/warmup_steps of the rate, then constant."""
    step_S = torch.arange(1, steps + 1, dtype=torch.float64)
    ramp_S = (step_S / max(config.warmup_steps, 1)).clamp(max=1.0)
    return (config.learning_rate * ramp_S).float()


def momenta(config: TrainingConfig, steps: int) -> Tensor:
    """Fixed teacher momentum, or linear in the step from the first to the final value."""
    final = config.ema_momentum if config.ema_final_momentum is None else config.ema_final_momentum
    return torch.linspace(config.ema_momentum, final, steps, dtype=torch.float64).float()
