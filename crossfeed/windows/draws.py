"""Where masks get their randomness: a torch generator while training, a hash of (seed, window) for validation."""

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor

# Given a shape that starts with B, uniform numbers in [0, 1); each call gives fresh ones.
Draw = Callable[[tuple[int, ...]], Tensor]

# The constants of the splitmix64 finaliser, as signed 64-bit integers.
_STEP = 0x9E3779B97F4A7C15 - 2**64
_FIRST = 0xBF58476D1CE4E5B9 - 2**64
_SECOND = 0x94D049BB133111EB - 2**64


def generator_draw(generator: torch.Generator) -> Draw:
    """Draws from a generator, on the generator's own device."""
    return lambda shape: torch.rand(shape, generator=generator, device=generator.device)


def window_draw(seed: int, window_B: Tensor) -> Draw:
    """Draws that depend on the seed and the window alone: not on the batch, its order, the device or earlier calls."""
    key_B = _mix(window_B.long() * _STEP + _mix(torch.full_like(window_B, seed, dtype=torch.int64)))
    used = 0

    def draw(shape: tuple[int, ...]) -> Tensor:
        nonlocal used
        count = prod(shape[1:])
        counter = torch.arange(used + 1, used + count + 1, device=key_B.device)
        used += count
        bits = _mix(key_B[:, None] + counter * _STEP)
        return ((bits >> 24) & 0xFFFFFF).float().mul(2.0**-24).view(shape)

    return draw


def _mix(value: Tensor) -> Tensor:
    """Spread every input bit over all 64 output bits; integer products wrap around on every device."""
    value = (value ^ ((value >> 30) & 0x3FFFFFFFF)) * _FIRST
    value = (value ^ ((value >> 27) & 0x1FFFFFFFFF)) * _SECOND
    return value ^ ((value >> 31) & 0x1FFFFFFFF)
