"""The same path under other overrides: nothing is lost, and only what moves takes longer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.scenarios.plan import Overrides, under_overrides
from crossfeed.schema import canonical

SCHEMA = canonical()


@st.composite
def logged(draw: st.DrawFn) -> np.ndarray:
    rows = draw(st.integers(1, 30))
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    commands = generator.uniform(0.0, 3000.0, (rows, 4))
    commands[generator.random(rows) < 0.3, 1:] = 0.0
    return commands


@given(logged(), st.floats(10.0, 300.0), st.floats(10.0, 200.0))
def test_the_path_is_driven_whole_whatever_the_override(commands: np.ndarray, feed: float, spindle: float) -> None:
    changed = under_overrides(commands, SCHEMA, Overrides(feed=feed, spindle=spindle))
    assert changed[:, 1:].sum(axis=0) == pytest.approx(commands[:, 1:].sum(axis=0), rel=1e-6, abs=1e-6)
    moving = (commands[:, 1:] != 0.0).any(axis=1).sum()
    wanted = moving * 100.0 / feed + len(commands) - moving
    assert wanted - 1e-6 <= len(changed) < wanted + 1.0 + 1e-6
    assert changed[:, 0].max() <= commands[:, 0].max() * spindle / 100.0 + 1e-6


@given(logged())
def test_knobs_at_a_hundred_change_nothing(commands: np.ndarray) -> None:
    assert under_overrides(commands, SCHEMA, Overrides()) == pytest.approx(commands, abs=1e-6)


def test_half_the_feed_takes_twice_as_long_and_a_dwell_does_not() -> None:
    commands = np.array([[1000.0, 600.0, 0.0, 0.0], [1000.0, 0.0, 0.0, 0.0]])
    changed = under_overrides(commands, SCHEMA, Overrides(feed=50.0, spindle=80.0))
    assert changed.tolist() == [[800.0, 300.0, 0.0, 0.0], [800.0, 300.0, 0.0, 0.0], [800.0, 0.0, 0.0, 0.0]]
