"""What keeps latents from collapsing: VICReg's hinge and covariance penalty (Eq. 10), or SIGReg in its place.

G groups of N latents of width D, S slices, T knots.
"""

import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm


class VICRegConfig(CheckedForm):
    """Weights of the two penalties and the constant inside the root."""

    variance: float = Field(default=25.0, ge=0.0)
    covariance: float = Field(default=1.0, ge=0.0)
    epsilon: float = Field(default=1e-4, gt=0.0)


def vicreg(latent_GND: Tensor, config: VICRegConfig) -> Tensor:
    """alpha/d * sum of hinges below unit deviation + beta/d * sum of squared off-diagonal covariances.

    Computed within each group and averaged over groups; VICReg's invariance term is not used.
    """
    number, width = latent_GND.shape[-2:]
    centred_GND = latent_GND - latent_GND.mean(-2, keepdim=True)
    variance_GD = centred_GND.square().mean(-2)
    hinge_GD = torch.relu(1.0 - (variance_GD + config.epsilon).sqrt())
    covariance_GDD = centred_GND.transpose(-2, -1) @ centred_GND / (number - 1)
    diagonal_GD = covariance_GDD.diagonal(dim1=-2, dim2=-1)
    off_diagonal_G = covariance_GDD.square().sum((-2, -1)) - diagonal_GD.square().sum(-1)
    penalty_G = config.variance * hinge_GD.mean(-1) + config.covariance * off_diagonal_G / width
    return penalty_G.mean()


class SIGRegConfig(CheckedForm):
    """How many random directions are tested per call, and how finely and how far the integral is summed."""

    slices: int = Field(default=256, ge=1)
    knots: int = Field(default=17, ge=2)
    extent: float = Field(default=3.0, gt=0.0)


def sigreg(latent_GND: Tensor, config: SIGRegConfig, generator: torch.Generator | None = None) -> Tensor:
    """The Epps-Pulley statistic averaged over random directions and groups: are the latents an isotropic Gaussian?

    Sketched Isotropic Gaussian Regularisation of Balestriero and LeCun, "LeJEPA" (2025), written from the formula.
    """
    width = latent_GND.shape[-1]
    direction_DS = torch.randn(width, config.slices, device=latent_GND.device, generator=generator)
    direction_DS = direction_DS / direction_DS.norm(dim=0)
    return epps_pulley(latent_GND @ direction_DS, config).mean()


def epps_pulley(sample_GNS: Tensor, config: SIGRegConfig) -> Tensor:
    """Distance of each column's characteristic function from that of N(0, 1), times the number of samples.

    N * integral of |mean(exp(i t y)) - exp(-t^2/2)|^2 * exp(-t^2/2) dt by the trapezoidal rule. The integrand is even
    in t, so half the axis is summed and doubled.
    """
    number = sample_GNS.shape[-2]
    t_T = torch.linspace(0.0, config.extent, config.knots, device=sample_GNS.device, dtype=sample_GNS.dtype)
    normal_T = torch.exp(-0.5 * t_T.square())
    phase_GNST = sample_GNS.unsqueeze(-1) * t_T
    real_GST = phase_GNST.cos().mean(-3) - normal_T
    imaginary_GST = phase_GNST.sin().mean(-3)
    density_GST = (real_GST.square() + imaginary_GST.square()) * normal_T
    return 2.0 * number * torch.trapezoid(density_GST, dx=config.extent / (config.knots - 1))
