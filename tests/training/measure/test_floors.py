"""Persistence and linear drift against plain numpy, with holes in the data."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.training.health import context_mean, linear_drift, persistence

HORIZONS = (1, 4)


def holed(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x_BKC = torch.randn(3, 8, 4, generator=generator)
    m_BKC = torch.rand(3, 8, 4, generator=generator) > 0.4
    m_BKC[0, :, 0] = False
    m_BKC[1, :, 1] = torch.arange(8) == 3
    return x_BKC, m_BKC


@settings(max_examples=30)
@given(seed=st.integers(0, 1000))
def test_floors_agree_with_numpy_on_present_rows(seed: int) -> None:
    x_BKC, m_BKC = holed(seed)
    last_BHC = persistence(x_BKC, m_BKC, HORIZONS)
    line_BHC = linear_drift(x_BKC, m_BKC, HORIZONS)
    for window in range(3):
        for channel in range(4):
            rows = np.flatnonzero(m_BKC[window, :, channel])
            values = x_BKC[window, rows, channel].double().numpy()
            if len(rows) == 0:
                expected_last, expected_line = 0.0, [0.0, 0.0]
            elif len(rows) == 1:
                expected_last, expected_line = values[-1], [values[-1]] * 2
            else:
                expected_last = values[-1]
                expected_line = np.polyval(np.polyfit(rows, values, 1), 7 + np.array(HORIZONS))
            np.testing.assert_allclose(last_BHC[window, :, channel], expected_last, rtol=1e-6)
            np.testing.assert_allclose(line_BHC[window, :, channel], expected_line, rtol=1e-4, atol=1e-4)


def test_absent_values_are_never_read() -> None:
    x_BKC, m_BKC = holed(1)
    spoiled_BKC = torch.where(m_BKC, x_BKC, torch.nan)
    for floor in (persistence, linear_drift):
        assert torch.equal(floor(x_BKC, m_BKC, HORIZONS), floor(spoiled_BKC, m_BKC, HORIZONS))


def test_the_context_mean_reads_present_rows_alone() -> None:
    x_BKC, m_BKC = holed(0)
    found = context_mean(x_BKC, m_BKC, HORIZONS)
    shown = torch.where(m_BKC, x_BKC, torch.nan).nanmean(1).nan_to_num()
    torch.testing.assert_close(found, shown[:, None].expand(-1, 2, -1))
    torch.testing.assert_close(context_mean(torch.where(m_BKC, x_BKC, 1e6), m_BKC, HORIZONS), found)
