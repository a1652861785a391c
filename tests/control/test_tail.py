"""Chances and margins are two sides of one law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.control.tail import Tail


@given(st.floats(-0.2, 0.2), st.floats(0.01, 0.5), st.floats(2.0, 200.0), st.floats(0.001, 0.5))
def test_what_is_passed_with_a_chance_is_what_is_kept_otherwise(middle, spread, freedom, risk):
    tail = Tail(middle, spread, freedom)
    assert tail.above(np.array([tail.within(risk)]))[0] == pytest.approx(risk, rel=1e-6)


def test_few_rows_make_wide_tails():
    assert Tail(0.0, 0.1, 4.0).above(np.array([0.4]))[0] > 5.0 * Tail(0.0, 0.1, 60.0).above(np.array([0.4]))[0]


def test_higher_scores_are_less_likely():
    chance = Tail(0.0, 0.1, 9.0).above(np.linspace(-1.0, 1.0, 50))
    assert (np.diff(chance) < 0.0).all()
    assert ((chance > 0.0) & (chance < 1.0)).all()
