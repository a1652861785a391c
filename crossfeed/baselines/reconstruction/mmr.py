"""MMR style: the window is taken apart by Haar wavelets, coefficients of every level are hidden and rebuilt.

B windows, K context rows, C sensors, N coefficients of one band.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.reconstruction.pretext import StepPretextNetwork, uniform
from crossfeed.errors import ConfigError
from crossfeed.windows.windows import WindowBatch, present_mean

_LEVELS = 3
_RATIO = 0.5


def haar(x_BKC: Tensor) -> list[Tensor]:
    """Bands of an orthonormal Haar transform along time: details from fine to coarse, then the coarsest average."""
    bands, smooth = [], x_BKC
    for _ in range(_LEVELS):
        even, odd = smooth[:, 0::2], smooth[:, 1::2]
        bands.append((even - odd) / math.sqrt(2.0))
        smooth = (even + odd) / math.sqrt(2.0)
    return [*bands, smooth]


def inverse_haar(bands: list[Tensor]) -> Tensor:
    """The series whose bands these are."""
    smooth = bands[-1]
    for detail in reversed(bands[:-1]):
        pair = torch.stack([smooth + detail, smooth - detail], 2) / math.sqrt(2.0)
        smooth = pair.flatten(1, 2)
    return smooth


def complete(m_BKC: Tensor) -> list[Tensor]:
    """For each band, the coefficients all of whose rows are present."""
    bands, whole = [], m_BKC
    for _ in range(_LEVELS):
        whole = whole[:, 0::2] & whole[:, 1::2]
        bands.append(whole)
    return [*bands, whole]


class WaveletAutoencoder(StepPretextNetwork):
    """Bands count equally, so that the fine ones are not drowned by the level of the window."""

    def __init__(self, features: Features, width: int, layers: int) -> None:
        super().__init__(features, width, layers)
        step = 2**_LEVELS
        if features.shape.context < step:
            raise ConfigError(
                f"Three wavelet levels need a context of at least {step} rows, it has {features.shape.context}.",
                remedy="Use a longer context, or leave mmr out.",
            )
        self.rows = features.shape.context // step * step

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        x_BKC, m_BKC = batch.x_BKC[:, -self.rows :], batch.m_BKC[:, -self.rows :]
        bands = haar(x_BKC)
        hidden = [uniform(tuple(band.shape), generator) < _RATIO for band in bands]
        left = [torch.where(away, 0.0, band) for away, band in zip(hidden, bands, strict=True)]
        corrupted_BKC = batch.x_BKC.clone()
        corrupted_BKC[:, -self.rows :] = inverse_haar(left) * m_BKC.to(x_BKC.dtype)
        steps_BKD = self.encoder(replace(batch, x_BKC=corrupted_BKC))
        rebuilt = haar(self.rebuild(steps_BKD)[:, -self.rows :])
        losses = [
            present_mean((guess - band).square(), away & known)
            for guess, band, away, known in zip(rebuilt, bands, hidden, complete(m_BKC), strict=True)
        ]
        return torch.stack(losses).mean()
