"""Warm-up and teacher momentum as functions of the step."""

import pytest

from crossfeed.training.config import TrainingConfig
from crossfeed.training.optimiser import average_weights, learning_rates, momenta


def test_warmup_changes_the_learning_rate() -> None:
    """The reference implementation had a warm-up key that nothing read."""
    constant = TrainingConfig(learning_rate=1e-3, schedule="constant", warmup_steps=0)
    plain = learning_rates(constant, 6)
    warmed = learning_rates(constant.model_copy(update={"warmup_steps": 4}), 6)
    assert plain.tolist() == pytest.approx([1e-3] * 6)
    assert warmed.tolist() == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3, 1e-3])


def test_momentum_is_fixed_unless_a_final_value_is_given() -> None:
    assert momenta(TrainingConfig(), 3).tolist() == pytest.approx([0.996] * 3)
    scheduled = momenta(TrainingConfig(ema_momentum=0.99, ema_final_momentum=0.9999), 3)
    assert scheduled.tolist() == pytest.approx([0.99, 0.99495, 0.9999])


def test_the_cosine_begins_at_the_whole_rate_and_falls_towards_nothing() -> None:
    rates = learning_rates(TrainingConfig(learning_rate=2.0, schedule="cosine", warmup_steps=0), 4)
    assert rates.tolist() == pytest.approx([2.0, 1.0 + 0.5**0.5, 1.0, 1.0 - 0.5**0.5])


def test_the_average_of_weights_forgets_its_beginning_and_then_keeps_its_decay() -> None:
    weights = average_weights(TrainingConfig(average_decay=0.99), 2000)
    assert weights[[0, 8, 890, 1999]].tolist() == pytest.approx([0.9, 0.5, 0.01, 0.01])
