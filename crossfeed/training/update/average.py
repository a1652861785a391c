"""The average of the weights over the last steps: what is validated and kept, while training goes on with its own."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor


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
