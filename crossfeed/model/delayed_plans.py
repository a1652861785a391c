"""Rows between the trained horizons: asked at the next trained one, under a plan that waits before it begins.

Row 11 is asked at horizon 16 as if the commands of now went on for five more rows. So no horizon is asked for that was
not trained, every row stands under its own command, and one encoded window answers for all rows up to the last horizon.
B windows, T planned steps, R rows, A commands.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.model.interface import Plan


class SlotAndDelay(NamedTuple):
    """How a row is asked for: the slot of a trained horizon, and the rows to delay before the plan begins."""

    slot: int
    delay: int


def check_between(horizons: tuple[int, ...], trained: tuple[int, ...]) -> None:
    """Refuse horizons before the first or after the last that was trained."""
    outside = [horizon for horizon in horizons if not trained[0] <= horizon <= trained[-1]]
    if outside:
        known = ", ".join(map(str, trained))
        raise ConfigError(
            f"Horizon {outside[0]} lies outside the horizons this model was trained on ({known}).",
            expected=f"whole numbers from {trained[0]} to {trained[-1]}",
            remedy="Ask for horizons in that range, or train a model with a longer horizon.",
        )


def slot_and_delay(row: int, trained: tuple[int, ...]) -> SlotAndDelay:
    """The next trained horizon that reaches the row."""
    check_between((row,), trained)
    slot = next(index for index, horizon in enumerate(trained) if horizon >= row)
    return SlotAndDelay(slot, trained[slot] - row)


def delayed(now_B1A: Tensor, future_BTA: Tensor, delay: int) -> Tensor:
    """The plan, begun so many rows later; nothing is added where nothing waits."""
    return torch.cat([now_B1A.expand(-1, delay, -1), future_BTA], 1) if delay else future_BTA


@cache
def delayed_steps(rows: int, trained: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Slots (R) that answer for the first rows, and (R, T) where each waiting plan lies in the commands from now on."""
    asked = [slot_and_delay(row, trained) for row in range(1, rows + 1)]
    slot_R, delay_R = (torch.tensor(part) for part in zip(*asked, strict=True))
    step_T = torch.arange(1, max(trained[slot] for slot, _ in asked) + 1)
    # Behind its own horizon nothing of a plan is read, so its last command may stand there.
    return slot_R, (step_T - delay_R.unsqueeze(1)).clamp(0, rows)


def plans_by_delay(
    now_B1A: Tensor, future_BTA: Tensor, rows: Sequence[int], trained: tuple[int, ...]
) -> Iterator[tuple[list[int], Plan]]:
    """For each delay, which of the rows are asked for, and the plan at trained horizons that asks for them."""
    by_delay: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for number, row in enumerate(rows):
        slot, delay = slot_and_delay(row, trained)
        by_delay[delay][number] = trained[slot]
    for delay, horizons in by_delay.items():
        yield list(horizons), Plan.under(delayed(now_B1A, future_BTA, delay), tuple(horizons.values()))
