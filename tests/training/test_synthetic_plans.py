"""Speeds that nobody drove: what is changed, what the model at the beginning makes of it, what stays as measured."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from crossfeed.logs.table import Table
from crossfeed.model.config import SensorConfig
from crossfeed.model.world_model import WorldModel
from crossfeed.training import synthetic_plans
from crossfeed.training.synthetic_plans import SyntheticPlans
from crossfeed.windows.corrupt import generator_draw
from crossfeed.windows.windows import WindowSet
from tests.windows.spindle import HORIZONS, SCHEMA, normaliser, spindle_table, spindle_windows

CONTEXT = 6


def standing_half() -> Table:
    """A spindle that stands in the second half of its log."""
    table = spindle_table()
    commands = table.commands.copy()
    commands[len(commands) // 2 :, 0] = 0.0
    return replace(table, commands=commands)


def often_standing() -> Table:
    """A spindle that stands every other dozen rows."""
    table = spindle_table()
    commands = table.commands.copy()
    commands[np.arange(len(commands)) % 24 >= 12, SPEED] = 0.0
    return replace(table, commands=commands)


SPEED, FEED = 0, 1
WINDOWS, INTERRUPTED = spindle_windows(standing_half()), spindle_windows(often_standing())


def tiny_network() -> SensorConfig:
    return SensorConfig(width=16, heads=2, encoder_layers=1, decoder_layers=1, context=CONTEXT, horizons=HORIZONS)


def model() -> WorldModel:
    torch.manual_seed(0)
    return WorldModel.build(tiny_network(), SCHEMA, normaliser()).train()


def synthetic(seed: int = 0, windows: WindowSet = WINDOWS) -> SyntheticPlans:
    known = SyntheticPlans.of(model(), windows, torch.Generator().manual_seed(seed))
    assert known is not None
    return known


def commanded(a_BTA: torch.Tensor) -> np.ndarray:
    return normaliser().inverse_commands(a_BTA.double().numpy())


@pytest.mark.parametrize("seed", range(3))
def test_either_everything_stops_or_the_speed_alone_is_turned(seed: int) -> None:
    known = synthetic(seed)
    driven = commanded(WINDOWS.batch(known.number_M).future_a_BTA)
    planned = commanded(known.future_a_MTA)
    stopped = (np.abs(planned[:, -1]) < 1e-3).all(-1)
    assert stopped.mean() == pytest.approx(0.3, abs=0.05)
    np.testing.assert_allclose(planned[~stopped, :, FEED], driven[~stopped, :, FEED], atol=1e-3)
    turned = planned[~stopped, -1, SPEED] / np.maximum(driven[~stopped, -1, SPEED], 1e-9)
    turning = driven[~stopped, -1, SPEED] > 1.0
    assert (turned[turning] > synthetic_plans.SLOWEST - 1e-4).all()
    assert (turned[turning] < synthetic_plans.FASTEST + 1e-4).all()
    assert len(np.unique(turned[turning].round(3))) > 50
    # How much a speed is turned says nothing about when: late changes are as strong as early ones.
    late = np.isclose(planned[~stopped, 0, SPEED], driven[~stopped, 0, SPEED])[turning]
    assert turned[turning][late].min() < 0.6
    assert turned[turning][~late].max() > 0.9


def test_a_log_that_shows_stops_is_not_contradicted_by_synthetic_ones() -> None:
    """Remembered stops cost Michigan a sixth of its RMSE: its logs say what the machine reads at rest, otherwise."""
    known = synthetic(windows=INTERRUPTED)
    driven, planned = (
        commanded(plan)[..., SPEED] for plan in (known.windows.batch(known.number_M).future_a_BTA, known.future_a_MTA)
    )
    assert (planned[driven > 1.0] > 1.0).all()
    assert (np.abs(planned - driven) > 1.0).any()


def test_what_comes_before_the_change_is_as_it_was_measured() -> None:
    known = synthetic()
    batch = WINDOWS.batch(known.number_M)
    driven, planned = commanded(batch.future_a_BTA), commanded(known.future_a_MTA)
    checked = 0
    for slot, horizon in enumerate(HORIZONS):
        same = torch.from_numpy(np.abs(driven[:, :horizon] - planned[:, :horizon]).max((1, 2)) < 1e-3)
        torch.testing.assert_close(known.future_x_MHC[same, slot], batch.future_x_BHC[same, slot], atol=1e-4, rtol=0.0)
        checked += int(same.sum())
        assert (known.future_x_MHC[~same, slot] != batch.future_x_BHC[~same, slot]).any()
    assert checked > 100


def test_targets_lie_within_the_spreads_that_the_model_expects() -> None:
    """A measurement that was one spread from its forecast is one spread from the forecast under the other plan."""
    asked, known = model().eval(), synthetic()
    batch = WINDOWS.batch(known.number_M)
    with torch.no_grad():
        here = asked(batch).distribution
        there = asked(known.batch(torch.arange(len(known.number_M)))).distribution
    spreads_here = ((batch.future_x_BHC - here.mean) / here.standard_deviation).abs()
    spreads_there = ((known.future_x_MHC - there.mean) / there.standard_deviation).abs()
    assert (spreads_there <= spreads_here + 1e-3).all()
    narrower = there.standard_deviation < here.standard_deviation
    assert narrower.any()
    torch.testing.assert_close(spreads_there[narrower], spreads_here[narrower], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("windows", [WINDOWS, INTERRUPTED], ids=["one stop", "many starts"])
def test_windows_whose_spindle_stands_are_not_synthetic(windows: WindowSet) -> None:
    driven = commanded(windows.batch(synthetic(windows=windows).number_M).future_a_BTA)[..., SPEED]
    assert (driven > 1.0).any(1).all()
    everything = commanded(windows.batch(torch.arange(len(windows))).future_a_BTA)[..., SPEED]
    assert len(driven) == (everything > 1.0).any(1).sum()


def test_a_tenth_of_a_batch_is_synthetic_and_the_others_stay() -> None:
    known = synthetic()
    batch = WINDOWS.batch(torch.arange(len(WINDOWS)))
    shown = known(batch, generator_draw(torch.Generator().manual_seed(1)))
    other = torch.from_numpy((commanded(shown.future_a_BTA) != commanded(batch.future_a_BTA)).any((1, 2)))
    replaced = shown.last_index_B != batch.last_index_B
    assert abs(float(replaced.float().mean()) - synthetic_plans.SHARE) < 0.06
    assert not (other & ~replaced & (shown.future_x_BHC == batch.future_x_BHC).all(-1).all(-1)).any()
    for name in ("x_BKC", "future_x_BHC", "future_a_BTA", "mean_a_BHA", "machine_B"):
        assert torch.equal(getattr(shown, name)[~(replaced | other)], getattr(batch, name)[~(replaced | other)])
    means = torch.stack([shown.future_a_BTA[:, :horizon].mean(1) for horizon in HORIZONS], 1)
    torch.testing.assert_close(shown.mean_a_BHA, means, atol=1e-5, rtol=0.0)


def test_showing_what_is_synthetic_needs_no_values() -> None:
    """On a GPU a step is captured in a graph, which cannot wait for a number."""
    known, chance = synthetic(), torch.Generator().manual_seed(0)
    with FakeTensorMode(allow_non_fake_inputs=True):
        shown = known(WINDOWS.batch(torch.randint(len(WINDOWS), (8,), generator=chance)), generator_draw(chance))
    assert shown.future_x_BHC.shape == (8, len(HORIZONS), 2)


def test_the_same_seed_remembers_the_same() -> None:
    first, again, other = synthetic(3), synthetic(3), synthetic(4)
    assert torch.equal(first.future_x_MHC, again.future_x_MHC)
    assert not torch.equal(first.number_M, other.number_M)


def test_asking_leaves_the_model_as_it_was() -> None:
    asked = model()
    before = {name: value.clone() for name, value in asked.state_dict().items()}
    SyntheticPlans.of(asked, WINDOWS, torch.Generator())
    assert asked.training
    assert all(torch.equal(value, before[name]) for name, value in asked.state_dict().items())


def test_only_so_many_windows_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_plans, "MOST", 150)
    assert len(synthetic().number_M) == 150


def test_a_machine_without_a_commanded_speed_has_nothing_to_remember() -> None:
    table = spindle_table()
    still = spindle_windows(replace(table, commands=table.commands * [0.0, 1.0]))
    assert SyntheticPlans.of(model(), still, torch.Generator()) is None


def test_a_machine_whose_only_commands_are_feeds_has_nothing_to_remember() -> None:
    feeds = tuple(command.model_copy(update={"quantity": "feed", "unit": "mm/min"}) for command in SCHEMA.commands)
    feeds_only = WorldModel.build(tiny_network(), SCHEMA.model_copy(update={"commands": feeds}), normaliser())
    assert SyntheticPlans.of(feeds_only, WINDOWS, torch.Generator()) is None


def test_a_window_comes_to_rest_where_the_later_half_of_its_whole_plan_stands() -> None:
    """Horizons 1, 2 and 8: a spindle that turns up to row 20 comes to rest at the four rows from 16 to 19."""
    turns_N = torch.arange(60) <= 20
    windows = SimpleNamespace(last_W=torch.arange(10, 30), horizons=(1, 2, 8))
    assert synthetic_plans._coming_to_rest(windows, turns_N) == pytest.approx(5 / 20)
    assert synthetic_plans._turning(windows, turns_N).tolist() == list(range(10))
