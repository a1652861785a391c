"""Where rising functions cross zero, entry by entry: Newton steps that cannot leave their bracket. N entries."""

from collections.abc import Callable

import torch
from torch import Tensor

ROUNDS = 64
ASKED_EVERY = 8


@torch.no_grad()
def find_root(
    function: Callable[..., tuple[Tensor, Tensor]], low_N: Tensor, high_N: Tensor, near_N: Tensor, *parameters: Tensor
) -> Tensor:
    """The zeros between `low` and `high` of a function of x and its parameters that gives value and slope.

    A Newton step is taken where it stays inside the bracket and at least halves the last step; elsewhere the bracket
    is halved. An entry rests once its value is as near to zero as asked. On a CPU, where asking costs nothing, resting
    entries are put aside. A GPU is asked now and then whether all rest, and never where its work is being captured.
    """
    x_N, last_N = 0.5 * (low_N + high_N), high_N - low_N
    found_N, left_N = x_N.clone(), torch.arange(len(x_N), device=x_N.device)
    for number in range(ROUNDS):
        value_N, slope_N = function(x_N, *parameters)
        below_N = value_N < 0.0
        low_N, high_N = torch.where(below_N, x_N, low_N), torch.where(below_N, high_N, x_N)
        newton_N = x_N - value_N / slope_N
        good_N = (newton_N > low_N) & (newton_N < high_N) & ((newton_N - x_N).abs() < 0.5 * last_N)
        next_N = torch.where(good_N, newton_N, 0.5 * (low_N + high_N))
        next_N = torch.where(value_N.abs() <= near_N, x_N, next_N)
        last_N, moving_N, x_N = (next_N - x_N).abs(), next_N != x_N, next_N
        if x_N.device.type == "cpu" and 2 * int(moving_N.sum()) <= len(x_N):
            found_N[left_N] = x_N
            left_N = left_N[moving_N]
            if not len(left_N):
                return found_N
            state = (x_N, low_N, high_N, last_N, near_N, *parameters)
            x_N, low_N, high_N, last_N, near_N, *parameters = (part[moving_N] for part in state)  # type: ignore[assignment]
        elif number % ASKED_EVERY == ASKED_EVERY - 1 and _may_ask(x_N) and not bool(moving_N.any()):
            break
    found_N[left_N] = x_N
    return found_N


def _may_ask(values: Tensor) -> bool:
    """Whether the host may wait for a number from a GPU."""
    return values.is_cuda and not torch.cuda.is_current_stream_capturing()
