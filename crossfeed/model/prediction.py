"""What the model says about a batch: predicted latents and a distribution for every horizon and sensor.

B windows, H horizons, D latent width. Distributions are in global z-space.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.model.context import Context


@dataclass(frozen=True, slots=True)
class Prediction:
    """A forecast of a batch under one plan, with the latents and the context it came from."""

    latent_BHD: Tensor
    distribution: Distribution
    context: Context

    def map(self, function: Callable[[Tensor], Tensor]) -> "Prediction":
        """The same with each of its tensors changed; windows lie along the first axis."""
        whole = self.distribution.broadcast()
        return Prediction(function(self.latent_BHD), whole.map(function), self.context.map(function))

    def __getitem__(self, windows: slice) -> "Prediction":
        """What is said about some of the windows."""
        return self.map(lambda values: values[windows])

    def split(self, size: int) -> "tuple[Prediction, ...]":
        """The predictions of several views that went through the model as one batch."""
        return tuple(self[start : start + size] for start in range(0, len(self.latent_BHD), size))
