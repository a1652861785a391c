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

from crossfeed.model.interface import Plan
from crossfeed.model.parts.horizon_embedding import check_between


class Asked(NamedTuple):
    """How a row is asked for: the slot of a trained horizon, and the rows to wait before the plan begins."""

    slot: int
    wait: int


def asked_as(row: int, trained: tuple[int, ...]) -> Asked:
    """The next trained horizon that reaches the row."""
    check_between((row,), trained)
    slot = next(index for index, horizon in enumerate(trained) if horizon >= row)
    return Asked(slot, trained[slot] - row)


def after_waiting(now_B1A: Tensor, future_BTA: Tensor, wait: int) -> Tensor:
    """The plan, begun so many rows later; nothing is added where nothing waits."""
    return torch.cat([now_B1A.expand(-1, wait, -1), future_BTA], 1) if wait else future_BTA


@cache
def waiting_places(rows: int, trained: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Slots (R) that answer for the first rows, and (R, T) where each waiting plan lies in the commands from now on."""
    asked = [asked_as(row, trained) for row in range(1, rows + 1)]
    slot_R, wait_R = (torch.tensor(part) for part in zip(*asked, strict=True))
    step_T = torch.arange(1, max(trained[slot] for slot, _ in asked) + 1)
    # Behind its own horizon nothing of a plan is read, so its last command may stand there.
    return slot_R, (step_T - wait_R.unsqueeze(1)).clamp(0, rows)


def plans_by_wait(
    now_B1A: Tensor, future_BTA: Tensor, rows: Sequence[int], trained: tuple[int, ...]
) -> Iterator[tuple[list[int], Plan]]:
    """For each wait, which of the rows are asked for, and the plan at trained horizons that asks for them."""
    by_wait: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for number, row in enumerate(rows):
        slot, wait = asked_as(row, trained)
        by_wait[wait][number] = trained[slot]
    for wait, horizons in by_wait.items():
        yield list(horizons), Plan.under(after_waiting(now_B1A, future_BTA, wait), tuple(horizons.values()))
