"""VICReg's variance hinge and covariance penalty (Eq. 10); the invariance term is not used.

G groups of N latents of width D; the penalty is computed within each group and averaged over groups.
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
    """alpha/d * sum of hinges below unit deviation + beta/d * sum of squared off-diagonal covariances."""
    number, width = latent_GND.shape[-2:]
    centred_GND = latent_GND - latent_GND.mean(-2, keepdim=True)
    variance_GD = centred_GND.square().mean(-2)
    hinge_GD = torch.relu(1.0 - (variance_GD + config.epsilon).sqrt())
    covariance_GDD = centred_GND.transpose(-2, -1) @ centred_GND / (number - 1)
    diagonal_GD = covariance_GDD.diagonal(dim1=-2, dim2=-1)
    off_diagonal_G = covariance_GDD.square().sum((-2, -1)) - diagonal_GD.square().sum(-1)
    penalty_G = config.variance * hinge_GD.mean(-1) + config.covariance * off_diagonal_G / width
    return penalty_G.mean()
