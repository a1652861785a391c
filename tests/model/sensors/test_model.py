"""The sensor model as callers see it: causal, blind to what is absent, level-headed."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.errors import ConfigError
from crossfeed.model.distribution import Mixture
from crossfeed.model.interface import Plan
from crossfeed.schema import Schema
from tests.model.sensors.contexts import chosen, encode
from tests.model.sensors.small import (
    COMMANDS,
    CONTEXT,
    HORIZONS,
    REACHED,
    SCHEMA,
    SENSORS,
    assert_same,
    fresh,
    normaliser,
    say,
    single,
    stirred,
    windows,
)

ANY_HORIZONS = (1, 2, 3, 4)


GARBAGE = [float("nan"), float("inf"), 1e9]


@given(st.integers(0, 2**31), st.sampled_from(ANY_HORIZONS))
@settings(max_examples=20, deadline=None)
def test_no_forecast_knows_commands_after_its_horizon(seed: int, horizon: int) -> None:
    model, batch = stirred(members=2), windows(seed=seed)
    later = torch.arange(HORIZONS[-1])[:, None] >= horizon
    changed = replace(batch, future_a_BTA=torch.where(later, 30.0, batch.future_a_BTA))
    places = [place for place, asked in enumerate(ANY_HORIZONS) if asked <= horizon]
    one, two = (say(model, windows, ANY_HORIZONS) for windows in (batch, changed))
    assert_same(one[:, places], two[:, places])
    if horizon < HORIZONS[-1]:
        assert not torch.allclose(one.mean_M[:, -1], two.mean_M[:, -1])


@pytest.mark.parametrize("horizons", [(1,), (4,), (3,), (1, 3), (4, 2, 3), HORIZONS])
def test_some_horizons_are_answered_as_all_of_them(horizons: tuple[int, ...]) -> None:
    model, batch = stirred(members=2), windows()
    model.variance_inflation_H.copy_(torch.tensor([1.0, 1.5, 2.5]))
    whole = say(model, batch, ANY_HORIZONS)
    assert_same(say(model, batch, horizons), whole[:, [horizon - 1 for horizon in horizons]])


def test_a_plan_longer_than_the_last_horizon_is_read_up_to_it() -> None:
    """It ended in the middle of the network, with two shapes that did not fit."""
    model, batch = stirred(), windows()
    further = torch.cat([batch.future_a_BTA, torch.full((4, 5, COMMANDS), 9.0).double()], 1)
    assert_same(say(model, replace(batch, future_a_BTA=further)), say(model, batch))


@pytest.mark.parametrize("horizon", [5, 17])
def test_a_horizon_never_trained_is_refused(horizon: int) -> None:
    batch = windows()
    plan = Plan.under(torch.zeros(4, 20, COMMANDS).double(), (horizon,))
    with pytest.raises(ConfigError, match="outside the horizons this model was trained on"):
        fresh().decode(encode(fresh(), batch), plan)


@given(st.integers(0, 2**31), st.floats(0.0, 1.0), st.sampled_from(GARBAGE))
@settings(max_examples=25, deadline=None)
def test_absent_values_are_never_read(seed: int, presence: float, garbage: float) -> None:
    model, batch = stirred(), windows(seed=seed, presence=presence)
    wild = replace(batch, x_BKC=torch.where(batch.m_BKC, batch.x_BKC, garbage))
    one, two = say(model, batch), say(model, wild)
    for name in ("log_weight_M", "mean_M", "scale_M"):
        assert torch.equal(getattr(one, name), getattr(two, name))
    assert one.mean_M.isfinite().all()


@pytest.mark.parametrize("shown", range(2**SENSORS))
def test_any_subset_of_sensors_gives_a_forecast_of_all(shown: int) -> None:
    batch = windows(presence=1.0)
    present_C = torch.tensor([bool(shown >> sensor & 1) for sensor in range(SENSORS)])
    m_BKC = batch.m_BKC & present_C
    said = say(stirred(), replace(batch, m_BKC=m_BKC))
    blanked = replace(batch, m_BKC=m_BKC, x_BKC=torch.where(m_BKC, batch.x_BKC, float("nan")))
    assert torch.equal(said.mean_M, say(stirred(), blanked).mean_M)
    assert said.shape == (4, len(HORIZONS), SENSORS)
    assert said.mean_M.isfinite().all()
    assert (said.scale_M > 0.0).all()


def test_windows_of_a_batch_do_not_see_each_other() -> None:
    model, batch = stirred(members=2), windows(size=6)
    batch.m_BKC[2] = False  # a window that shows nothing at all
    whole = say(model, batch)
    for number in range(6):
        assert_same(say(model, chosen(batch, slice(number, number + 1))), whole[number : number + 1])
    order_B = torch.tensor([5, 3, 0, 2, 4, 1])
    assert_same(say(model, chosen(batch, order_B)), whole[order_B])


@given(st.permutations(range(SENSORS)))
@settings(max_examples=10, deadline=None)
def test_the_order_of_sensors_does_not_matter(order: list[int]) -> None:
    model, batch = stirred(), windows()
    schema = Schema(name="other", sensors=tuple(SCHEMA.sensors[c] for c in order), commands=SCHEMA.commands)
    other = fresh(schema)
    tensors = model.state_dict()
    tensors["network.sensors.own"] = tensors["network.sensors.own"][:, order]
    other.load_state_dict(tensors)
    reordered = replace(batch, x_BKC=batch.x_BKC[..., order], m_BKC=batch.m_BKC[..., order])
    assert_same(say(other, reordered), say(model, batch)[:, :, order])


@given(st.integers(0, 2**31), st.floats(-50.0, 50.0), st.sampled_from([2, 3]))
@settings(max_examples=20, deadline=None)
def test_a_sensor_on_another_level_is_forecast_on_that_level(seed: int, level: float, sensor: int) -> None:
    model, batch = stirred(), windows(seed=seed, presence=1.0)
    offset_C = level * torch.nn.functional.one_hot(torch.tensor(sensor), SENSORS).double()
    one, two = say(model, batch), say(model, replace(batch, x_BKC=batch.x_BKC + offset_C))
    assert not REACHED[sensor]
    assert_same(replace(one, mean_M=one.mean_M + offset_C[:, None]), two, atol=1e-9)


def test_a_fresh_model_stands_still_where_nothing_moves() -> None:
    batch = windows(presence=1.0)
    level_BC = torch.tensor([0.5, -0.2, 3.0, -7.0]).double().expand(4, SENSORS)
    held_BSA = torch.full((4, CONTEXT + HORIZONS[-1], COMMANDS), 0.4).double()
    still = replace(
        batch,
        x_BKC=level_BC[:, None].expand(-1, CONTEXT, -1),
        a_BKA=held_BSA[:, :CONTEXT],
        future_a_BTA=held_BSA[:, CONTEXT:],
    )
    said = say(fresh(), still)
    expected_BHC = level_BC[:, None].expand(-1, len(HORIZONS), -1)
    torch.testing.assert_close(said.mean[:, :, ~REACHED], expected_BHC[:, :, ~REACHED], rtol=0, atol=1e-9)
    torch.testing.assert_close(said.mean, expected_BHC, rtol=0, atol=0.1)
    torch.testing.assert_close(said.median, expected_BHC, rtol=0, atol=0.05)
    assert (said.standard_deviation < 1.0).all()


def test_a_fresh_model_is_nearly_persistence_on_moving_windows() -> None:
    batch = windows(size=64, presence=0.8)
    said, centre_BC = say(fresh(), batch), encode(fresh(), batch).window.centre_BC
    last_BC = encode(fresh(), batch).window.last_BC
    from_last, from_centre = ((said.mean - values[:, None]).square().mean() for values in (last_BC, centre_BC))
    assert from_last < 0.3 * from_centre


@given(st.integers(0, 2**31), st.floats(0.0, 1.0))
@settings(max_examples=20, deadline=None)
def test_under_held_commands_the_first_component_stands_on_the_last_measured_value(seed: int, presence: float) -> None:
    model, batch = stirred().float(), single(windows(seed=seed, presence=presence))
    batch.m_BKC[:, -2:] = False  # gaps in the newest rows too
    batch.future_a_BTA[:] = batch.a_BKA[:, -1:]
    standing_BC = say(model, batch).mean_M[:, 0, :, 0]
    for b in range(4):
        for c in range(SENSORS):
            present = batch.m_BKC[b, :, c].nonzero()
            expected = batch.x_BKC[b, present[-1].item(), c].item() if len(present) else 0.0
            assert standing_BC[b, c].item() == expected


def test_a_stop_lowers_what_moves_and_has_its_zero_in_reach() -> None:
    model, batch = fresh(), windows(presence=1.0)
    driven_A = torch.tensor([1.5, 2.0, 1.0]).double()
    stopped_A = torch.from_numpy(normaliser().transform_commands(torch.zeros(1, COMMANDS).numpy()))[0]
    held = replace(
        batch,
        x_BKC=torch.full_like(batch.x_BKC, 1.0),
        a_BKA=driven_A.expand(4, CONTEXT, -1),
        future_a_BTA=driven_A.expand(4, HORIZONS[-1], -1),
    )
    stop = replace(held, future_a_BTA=stopped_A.double().expand(4, HORIZONS[-1], -1))
    going, stopped = say(model, held).mean, say(model, stop).mean
    assert (stopped[:, :, REACHED] < going[:, :, REACHED] - 0.2).all()
    torch.testing.assert_close(stopped[:, :, ~REACHED], going[:, :, ~REACHED])


@pytest.mark.parametrize("commanded", [0.0, 1e6, -1e6])
@pytest.mark.parametrize("rows", ["constant", "one", "none"])
def test_values_and_gradients_are_finite_at_the_edges(commanded: float, rows: str) -> None:
    model, batch = stirred().float(), single(windows(presence=1.0))
    batch.future_a_BTA[:, ::2] = commanded
    batch.a_BKA[:2] = commanded
    if rows == "constant":
        batch.x_BKC[:] = 3.0
    else:
        batch.m_BKC[:, 1:] = False
        batch.m_BKC[:, 0] = rows == "one"
    said = model.decode(encode(model, batch), Plan.under(batch.future_a_BTA, HORIZONS)).distribution
    loss = said.crps(batch.future_x_BHC).sum()
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_window_encoded_once_serves_any_plan() -> None:
    model, batch = stirred(members=2), windows()
    context = encode(model, batch)
    for factor in (0.0, 1.0, -2.0):
        planned = replace(batch, future_a_BTA=factor * batch.future_a_BTA)
        said = model.decode(context, Plan.under(planned.future_a_BTA, HORIZONS)).distribution
        assert isinstance(said, Mixture)
        assert_same(said.broadcast(), say(model, planned), atol=0.0)
