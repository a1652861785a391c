"""Warm-up and teacher momentum as functions of the step."""

import pytest

from crossfeed.training.config import TrainingConfig
from crossfeed.training.update.schedule import learning_rates, momenta


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
