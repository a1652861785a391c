"""What the families share about the normal distribution, safe for zero spread and for distances of a million."""

import math
from statistics import NormalDist

import torch
from torch import Tensor

from crossfeed.errors import ConfigError


def floored(scale: Tensor) -> Tensor:
    """A spread that may be zero, as one that can be divided by.

    At this floor (2.6e-8 in single precision) the steepest gradient there is, squared distance over cubed spread, is
    still a number for distances of a million.
    """
    return scale.clamp_min(torch.finfo(scale.dtype).tiny ** 0.2)


def density(z: Tensor) -> Tensor:
    """The standard normal density."""
    return torch.exp(-0.5 * z.square()) * (1.0 / math.sqrt(2.0 * math.pi))


def probability(z: Tensor) -> Tensor:
    """The standard normal distribution function, exact far below zero as well, where 1 + erf would be rounded off."""
    return 0.5 * torch.erfc(z * -math.sqrt(0.5))


def normal_nll(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """The negative logarithm of a normal density, its constant included."""
    return 0.5 * (((x - mean) / scale).square() + math.log(2.0 * math.pi)) + scale.log()


def expected_distance(distance: Tensor, scale: Tensor) -> Tensor:
    """E|N(distance, scale^2)|, written so that neither it nor its gradient cancels far out."""
    z = distance / scale
    return distance * torch.erf(z * math.sqrt(0.5)) + 2.0 * scale * density(z)


def normal_at(level: float | Tensor, like: Tensor) -> Tensor:
    """The standard normal number of this rank, with the type and device of `like`."""
    if isinstance(level, Tensor):
        number: Tensor = torch.special.ndtri(level.to(like))
        return number
    # A fill instead of a copy from the host, which would make the device wait.
    return torch.full((), NormalDist().inv_cdf(checked(level)), dtype=like.dtype, device=like.device)


def checked(level: float) -> float:
    """A level that a quantile can be given for."""
    if not 0.0 < level < 1.0:
        raise ConfigError(f"A quantile at level {level:g} was asked for.", expected="a level between 0 and 1")
    return level
