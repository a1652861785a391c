"""Losses that the library compiles for a GPU: two fifths of a step saved, half a minute to pay first.

Worth it for long runs alone, so nobody gets it who has not asked for it.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

from crossfeed.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R], backend: str = "inductor") -> Callable[P, R]:
    """The same function, compiled at its first call; a machine that cannot compile is told what to do instead."""
    quick = torch.compile(function, dynamic=False, backend=backend)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        from torch._dynamo.exc import TorchDynamoException

        try:
            return quick(*args, **kwargs)
        except TorchDynamoException as error:
            raise ConfigError(
                f"The losses could not be compiled on this machine: {_reason(error)}",
                expected="a C compiler and Triton beside torch",
                remedy="Install them, or train with training.acceleration=auto, which compiles nothing.",
            ) from error

    return call


def _reason(error: Exception) -> str:
    """Its first two lines: the library says who failed before it says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) or type(error).__name__
