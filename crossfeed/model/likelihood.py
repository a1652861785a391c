"""Negative log-likelihoods of present target entries, constants included, and their quantiles.

Every family is parametrised by its mean and its variance, so that a standard deviation means the same in all of them.
"""

import math
from typing import Literal

import torch
from torch import Tensor

Likelihood = Literal["nll", "beta_nll", "student_t"]


def gaussian_nll(error: Tensor, log_variance: Tensor) -> Tensor:
    """-log N(error; 0, exp(log_variance)), entry by entry."""
    return 0.5 * (math.log(2.0 * math.pi) + log_variance + error.square() * torch.exp(-log_variance))


def beta_nll(error: Tensor, log_variance: Tensor, beta: float) -> Tensor:
    """Gaussian NLL with each entry weighted by its detached variance to the power beta (Seitzer et al., 2022)."""
    return torch.exp(beta * log_variance).detach() * gaussian_nll(error, log_variance)


def student_t_nll(error: Tensor, log_variance: Tensor, degrees_of_freedom: Tensor) -> Tensor:
    """-log of the Student-t density with this variance; degrees of freedom above 2."""
    dof = degrees_of_freedom
    log_spread = log_variance + torch.log(dof - 2.0)  # log(dof * scale^2)
    constant = torch.lgamma(dof / 2.0) - torch.lgamma((dof + 1.0) / 2.0) + 0.5 * math.log(math.pi)
    return constant + 0.5 * log_spread + 0.5 * (dof + 1.0) * torch.log1p(error.square() * torch.exp(-log_spread))


def student_t_quantile(level: float, degrees_of_freedom: Tensor) -> Tensor:
    """Quantile of the standard Student-t, by Newton steps in the angle x = sqrt(dof) tan(angle).

    In the angle, the distribution function is half plus an integral of cos^(dof - 1): smooth, bounded, quickly summed.
    """
    dof = degrees_of_freedom.double().unsqueeze(-1)
    node, weight = _legendre(64, dof.device)
    log_norm = torch.lgamma((dof + 1.0) / 2.0) - torch.lgamma(dof / 2.0) - 0.5 * math.log(math.pi)
    wanted = level - 0.5
    low, high = torch.zeros_like(dof), torch.full_like(dof, math.pi / 2.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        angle = 0.5 * middle * (node + 1.0)
        area = (
            0.5 * middle * (weight * torch.exp(log_norm + (dof - 1.0) * torch.cos(angle).log())).sum(-1, keepdim=True)
        )
        below = area < abs(wanted)
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    quantile = dof.sqrt() * torch.tan(0.5 * (low + high))
    return (math.copysign(1.0, wanted) * quantile).squeeze(-1)


def _legendre(points: int, device: torch.device) -> tuple[Tensor, Tensor]:
    import numpy as np

    node, weight = np.polynomial.legendre.leggauss(points)
    return torch.from_numpy(node).to(device), torch.from_numpy(weight).to(device)
