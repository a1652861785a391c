"""Rows between the trained horizons: the plans that wait for them."""

import pytest
import torch

from crossfeed.model.delayed_plans import delayed, delayed_steps, slot_and_delay

TRAINED = (1, 2, 4, 8, 16)


@pytest.mark.parametrize("rows", [1, 3, 11, 16])
def test_places_of_waiting_plans_are_those_of_plans_that_begin_later(rows: int) -> None:
    """Up to the horizon that answers; what stands behind it is read by nobody."""
    now, future = torch.full((1, 1, 2), -1.0), torch.arange(2.0 * rows).view(1, rows, 2)
    slot_R, place_RT = delayed_steps(rows, TRAINED)
    found_RTA = torch.cat([now, future], 1)[0, place_RT]
    for row in range(1, rows + 1):
        slot, wait = slot_and_delay(row, TRAINED)
        assert slot_R[row - 1] == slot
        assert torch.equal(found_RTA[row - 1, : TRAINED[slot]], delayed(now, future, wait)[0, : TRAINED[slot]])
