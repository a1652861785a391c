"""What is said of a signal before any check looks at it."""

import numpy as np
import pytest

from crossfeed.windows.audits.subject import Signal


def test_a_signal_reaches_as_far_as_all_but_two_of_a_thousand_and_spreads_over_nineteen_of_twenty() -> None:
    values = np.append(np.random.default_rng(0).permutation(np.arange(-1000.0, 1.0)), [np.nan, np.inf])
    signal = Signal("x", "torque", "N m", "sensor", values)
    assert len(signal.finite) == 1001
    assert signal.reach == pytest.approx(998.0)
    assert signal.spread == pytest.approx(950.0)


def test_a_signal_that_was_never_measured_reaches_nowhere() -> None:
    signal = Signal("x", "torque", "N m", "sensor", np.full(9, np.nan))
    assert (len(signal.finite), signal.reach, signal.spread) == (0, 0.0, 0.0)
