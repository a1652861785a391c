"""The parts of a mixture: one stands, one rests, the others move in proportion to what is commanded."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossfeed.model.distribution import Mixture
from crossfeed.model.sensors.commands import SMALL
from crossfeed.model.sensors.head import (
    CUTTING,
    FAINT,
    HIGHEST,
    LOWEST,
    STEEPEST,
    USUAL,
    MixtureHead,
    physical_exponents,
)
from crossfeed.schema import Channel, Schema, canonical
from tests.model.sensors.small import CONTEXT, HORIZONS, REACHED, SCHEMA, SENSORS, config, normaliser

GROUPS, WIDTH, MOVERS = 2, 6, 2
STEP_H = torch.tensor(HORIZONS) - 1
ROWS = CONTEXT + HORIZONS[-1]


class OneMember(MixtureHead):
    """The head of a single member, whose axis nobody has to think of."""

    def forward(self, query_BHCD: Tensor, *others: Tensor) -> Mixture:
        said = super().forward(query_BHCD.unsqueeze(0), *others)
        assert said.shape[0] == 1
        return said[0]


def head(**changes: float) -> OneMember:
    return OneMember(config(width=WIDTH, heads=1, movers=MOVERS, **changes), SCHEMA, normaliser()).double()


@torch.no_grad()
def set_part(head: MixtureHead, name: str, value: float) -> None:
    """Let one part of the mixture be the same for every query."""
    place = list(head.parts).index(name)
    rows = list(head.linear.bias[0].split(list(head.parts.values())))
    rows[place].fill_(value)


@torch.no_grad()
def stirred(seed: int = 0) -> OneMember:
    found, chance = head(), torch.Generator().manual_seed(seed)
    for parameter in found.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=chance).double())
    return found


def inputs(seed: int = 0, size: int = 3) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, centres, last values and efforts."""
    chance = torch.Generator().manual_seed(seed)
    query_BHCD = torch.randn(size, len(HORIZONS), SENSORS, WIDTH, generator=chance).double()
    centre_BC, last_BC = torch.randn(2, size, SENSORS, generator=chance).double()
    return query_BHCD, centre_BC, last_BC, torch.rand(size, ROWS, GROUPS, generator=chance).double() * 3.0


def steady(effort: float = 2.0, size: int = 3) -> Tensor:
    return torch.full((size, ROWS, GROUPS), effort).double()


def factors(head: MixtureHead, effort_BSG: Tensor, recency: float = 0.5) -> Tensor:
    """The factors by which movers of a sensor in reach are multiplied, seen from outside."""
    query_BHCD = torch.zeros(len(effort_BSG), len(HORIZONS), SENSORS, WIDTH).double()
    set_part(head, "recency", math.log(recency / (1.0 - recency)))
    value_BC = (head.zero_C + 1.0).expand(len(effort_BSG), -1)
    with torch.no_grad():
        said = head(query_BHCD, value_BC, value_BC, effort_BSG, STEP_H)
    return (said.mean_M[..., 2:] - head.zero_C.unsqueeze(-1))[:, :, REACHED]


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_one_component_stands_and_one_rests(seed: int) -> None:
    query_BHCD, centre_BC, last_BC, _ = inputs(seed)
    said = stirred(seed)(query_BHCD, centre_BC, last_BC, steady(), STEP_H)
    assert said.mean_M.shape == (3, len(HORIZONS), SENSORS, MOVERS + 2)
    assert torch.equal(said.mean_M[..., 0], last_BC[:, None].expand(-1, len(HORIZONS), -1))
    zero_C = torch.tensor([-1.0, -0.5]).double()
    assert torch.equal(said.mean_M[..., REACHED, 1], zero_C.expand(3, len(HORIZONS), -1))
    assert (said.scale_M >= 0.005).all()


def test_a_sensor_far_from_its_zero_never_rests() -> None:
    query_BHCD, *rest = inputs()
    weight = stirred()(query_BHCD, *rest, STEP_H).weight_M
    assert (weight[:, :, ~REACHED, 1] < 1e-9).all()
    assert (weight[:, :, REACHED, 1] > 1e-9).all()


@given(st.integers(0, 2**31), st.floats(-1e5, 1e5))
@settings(max_examples=30, deadline=None)
def test_another_level_moves_the_forecast_and_nothing_else(seed: int, level: float) -> None:
    """Far from the source's level the component that never applies, left behind at 0, made forecasts wider."""
    query_BHCD, centre_BC, last_BC, effort_BSG = inputs(seed)
    found, offset_C = stirred(seed), level * (~REACHED).double()
    one = found(query_BHCD, centre_BC, last_BC, effort_BSG, STEP_H)
    two = found(query_BHCD, centre_BC + offset_C, last_BC + offset_C, effort_BSG, STEP_H)
    torch.testing.assert_close(two.mean_M, one.mean_M + offset_C.unsqueeze(-1), rtol=0, atol=1e-9)
    torch.testing.assert_close(two.standard_deviation, one.standard_deviation, rtol=1e-6, atol=0)
    assert torch.equal(one.scale_M, two.scale_M)
    assert torch.equal(one.log_weight_M, two.log_weight_M)


@given(st.integers(0, 2**31), st.floats(0.1, 10.0))
@settings(max_examples=30, deadline=None)
def test_another_gain_scales_what_moves_about_the_physical_zero(seed: int, gain: float) -> None:
    query_BHCD, centre_BC, last_BC, effort_BSG = inputs(seed)
    found = stirred(seed)
    zero_C = found.zero_C
    scaled = (zero_C + gain * (values - zero_C) for values in (centre_BC, last_BC))
    one, two = (
        found(query_BHCD, *levels, effort_BSG, STEP_H) for levels in ((centre_BC, last_BC), tuple(scaled))
    )  # fmt: skip
    place = list(found.parts).index("distance")
    distance = found.linear(query_BHCD.unsqueeze(0))[0].split(list(found.parts.values()), -1)[place]

    def from_zero(said: Mixture) -> Tensor:
        return (said.mean_M[..., 2:] - distance - zero_C.unsqueeze(-1))[:, :, REACHED]

    torch.testing.assert_close(from_zero(two), gain * from_zero(one), rtol=1e-9, atol=1e-9)


@given(st.floats(-3.0, 3.0), st.floats(0.0, 10.0), st.floats(0.01, 0.99))
@settings(max_examples=30, deadline=None)
def test_commands_that_do_not_change_leave_the_factor_to_the_query(own: float, effort: float, recency: float) -> None:
    found = head()
    set_part(found, "factor", own)
    said = factors(found, steady(effort), recency)
    torch.testing.assert_close(said, torch.full_like(said, math.exp(math.tanh(own))), rtol=1e-9, atol=0)


@pytest.mark.parametrize("exponent", [-0.5, 0.0, 3.0])
def test_a_stop_drives_what_moves_towards_the_physical_zero(exponent: float) -> None:
    found, stop = head(), steady(2.0)
    set_part(found, "exponent", exponent)
    stop[:, CONTEXT:] = 0.0
    said = factors(found, stop)
    start = math.log(USUAL / (STEEPEST - USUAL))
    power = GROUPS * STEEPEST / (1.0 + math.exp(-exponent - start))
    expected = math.exp(max(LOWEST, power * math.log(SMALL / (2.0 + SMALL))))
    torch.testing.assert_close(said, torch.full_like(said, expected), rtol=1e-6, atol=0)
    assert (said < 0.5).all()


def test_a_stop_reaches_only_the_horizons_that_lie_in_it() -> None:
    late = steady(2.0)
    late[:, CONTEXT + 1 :] = 0.0
    said = factors(head(), late)
    torch.testing.assert_close(said[:, 0], torch.ones_like(said[:, 0]))
    assert (said[:, 1:] < 0.5).all()


def test_a_factor_follows_the_ratio_of_the_commands() -> None:
    slower = steady(2.0)
    slower[:, CONTEXT:, 0] *= 0.7
    found = head()
    set_part(found, "exponent", 30.0)  # as steep as can be
    expected = ((0.7 * 2.0 + SMALL) / (2.0 + SMALL)) ** STEEPEST
    said = factors(found, slower)
    torch.testing.assert_close(said, torch.full_like(said, expected), rtol=1e-6, atol=0)


def test_what_stands_goes_along_with_changed_commands() -> None:
    """A slower spindle was hardly foreseen while what stands stood whatever was commanded."""
    slower = steady(2.0)
    slower[:, CONTEXT:, 0] *= 0.7
    found, (query_BHCD, centre_BC, last_BC, _) = head(), inputs()
    ratio = (0.7 * 2.0 + SMALL) / (2.0 + SMALL)
    for said_exponent, exponent in ((0.0, FAINT), (30.0, STEEPEST)):
        set_part(found, "exponent", said_exponent)
        with torch.no_grad():
            stands_BHC = found(query_BHCD, centre_BC, last_BC, slower, STEP_H).mean_M[..., 0]
        expected_BC = torch.where(REACHED, found.zero_C + ratio**exponent * (last_BC - found.zero_C), last_BC)
        torch.testing.assert_close(stands_BHC, expected_BC[:, None].expand_as(stands_BHC), rtol=1e-6, atol=1e-6)


def test_a_fresh_head_knows_that_power_goes_with_speed() -> None:
    sensors = (Channel(name="spindle_power", quantity="power", unit="kW"), *SCHEMA.sensors[1:])
    schema = Schema(name="small", sensors=sensors, commands=SCHEMA.commands)
    plain = normaliser()
    known = dataclasses.replace(plain, sensor_names=schema.sensor_names)
    found = OneMember(config(width=WIDTH, heads=1, movers=MOVERS), schema, known).double()
    slower = steady(2.0)
    slower[:, CONTEXT:, 0] *= 0.7
    last_BC = (found.zero_C + 1.0).expand(3, -1)
    with torch.no_grad():
        said = found(inputs()[0], last_BC, last_BC, slower, STEP_H)
    ratio = (0.7 * 2.0 + SMALL) / (2.0 + SMALL)
    from_zero = (said.mean_M - found.zero_C.unsqueeze(-1))[:, :, 0]
    torch.testing.assert_close(from_zero[..., 0], torch.full_like(from_zero[..., 0], ratio), rtol=1e-6, atol=0)
    torch.testing.assert_close(from_zero[..., 2:], torch.full_like(from_zero[..., 2:], ratio), rtol=1e-6, atol=0)


def test_physics_tells_what_goes_with_which_commands() -> None:
    schema = canonical()
    known_CG = physical_exponents(schema)
    told = {
        (schema.sensor_names[row], int(group)): round(known_CG[row, group].item(), 6)
        for row, group in known_CG.nonzero()
    }
    assert told == {
        ("spindle_power", 0): 1.0,
        ("z_power", 1): 1.0,
        **{(name, 1): CUTTING for name in ("spindle_current", "spindle_torque", "spindle_power")},
    }


def test_factors_have_bounds() -> None:
    found, faster, slower = head(), steady(0.0), steady(1e6)
    set_part(found, "exponent", 3.0)
    faster[:, CONTEXT:], slower[:, CONTEXT:] = 1e6, 0.0
    assert factors(found, faster).max().item() == pytest.approx(math.exp(HIGHEST))
    assert factors(found, slower).min().item() == pytest.approx(math.exp(LOWEST))


def test_a_fresh_head_mostly_stands() -> None:
    query_BHCD, centre_BC, last_BC, _ = inputs()
    with torch.no_grad():
        said = head()(query_BHCD, centre_BC, last_BC, steady(), STEP_H)
    assert (said.weight_M.argmax(-1) == 0).all()
    last_BHC = last_BC[:, None].expand(-1, len(HORIZONS), -1)
    between = torch.minimum(last_BC, torch.minimum(centre_BC, head().zero_C))[:, None] - 1e-9
    assert (said.mean >= between).all()
    away_BHC = (said.mean - last_BHC)[:, :, ~REACHED]
    towards_BC = (centre_BC - last_BC)[:, None, ~REACHED]
    share = away_BHC / towards_BC
    assert ((share > 0.0) & (share < 0.5)).all()


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e6])
def test_gradients_are_finite_whatever_is_commanded(size: float) -> None:
    query_BHCD, centre_BC, last_BC, effort_BSG = inputs()
    found, query_BHCD = stirred(), query_BHCD.requires_grad_()
    effort_BSG[:, CONTEXT:] *= size
    said = found(query_BHCD, centre_BC, last_BC, effort_BSG, STEP_H)
    said.crps(torch.zeros_like(said.mean)).sum().backward()
    assert said.mean_M.isfinite().all()
    for parameter in (query_BHCD, *found.parameters()):
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


def test_reach_decides_which_zeros_count() -> None:
    zeros = {reach: head(reach=reach).reached_C.tolist() for reach in (0.7, 4.0, 20.0, 44.0)}
    assert zeros == {
        0.7: [False, True, False, False],
        4.0: [True, True, False, False],
        # A temperature in degrees Celsius has no zero at which nothing happens, however near it is.
        20.0: [True, True, False, False],
        44.0: [True, True, False, False],
    }


def test_queries_in_half_precision_are_read_in_that_of_the_weights() -> None:
    query_BHCD, *rest = inputs()
    found = stirred().float()
    single = [values.float() for values in rest]
    with torch.autocast("cpu", torch.bfloat16):
        said = found(query_BHCD.bfloat16(), *single, STEP_H)
    assert {part.dtype for part in (said.log_weight_M, said.mean_M, said.scale_M)} == {torch.float32}
    plain = found(query_BHCD.bfloat16().float(), *single, STEP_H)
    assert torch.equal(said.mean_M, plain.mean_M)
