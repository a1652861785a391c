"""The world model behind the interface: plans share the context, unread sensors change nothing, families are kept."""

import pytest
import torch

from crossfeed.evaluation.command_use import with_plan
from tests.evaluation.adaptation.small_models import tiny_world_model
from tests.evaluation.small_machine import HORIZONS, normaliser_of, small_table, window_set


@pytest.mark.parametrize("network", ["sensors", "jepa"])
def test_several_plans_at_once_equal_one_after_the_other(network: str) -> None:
    table = small_table()
    normaliser = normaliser_of(table)
    batch = window_set(table, normaliser).batch(torch.arange(30))
    plans = [batch, with_plan(batch, batch.future_a_BTA.flip(1), HORIZONS)]
    model = tiny_world_model(normaliser, network=network)
    for together, alone in zip(model.predict_plans(plans), (model.predict(plan) for plan in plans), strict=True):
        assert torch.equal(together.mean, alone.mean)
        assert torch.equal(together.standard_deviation, alone.standard_deviation)
    assert not torch.equal(model.predict(plans[0]).mean, model.predict(plans[1]).mean)


@pytest.mark.parametrize("network", ["sensors", "jepa"])
def test_sensors_that_are_never_shown_need_not_be_read_but_an_unexpected_one_is(network: str) -> None:
    table = small_table()
    normaliser = normaliser_of(table)
    partial, whole = (window_set(table, normaliser, hidden) for hidden in (("power",), ()))
    index = torch.arange(30)
    reading_all, reading_some = (tiny_world_model(normaliser, network=network) for _ in range(2))
    reading_some = reading_some.reading(partial)
    for windows in (partial, whole):
        batch = windows.batch(index)
        shown_C = windows.m_NC.any(0)
        assert bool(shown_C.all()) != (windows is partial)
        all_BHC, some_BHC = (reader.predict(batch).mean for reader in (reading_all, reading_some))
        torch.testing.assert_close(all_BHC[..., shown_C], some_BHC[..., shown_C])
