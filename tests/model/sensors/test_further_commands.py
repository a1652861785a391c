"""A network that is commanded by more than it was trained with says what it said, and learns what the rest means."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.model.distribution import Mixture
from crossfeed.model.interface import Plan
from crossfeed.model.new_machine import in_frame, readable_schema, with_further_commands
from crossfeed.model.sensors.commands import SMALL, CommandFeatures
from crossfeed.model.sensors.head import FAINT, HIGHEST, LOWEST, STEEPEST
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.sensors.network import SensorNetwork, SensorWindow
from crossfeed.schema import Channel, Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch
from tests.model.sensors.small import (
    COMMANDS,
    CONTEXT,
    HORIZONS,
    REACHED,
    SCHEMA,
    assert_same,
    normaliser,
    say,
    stirred,
    windows,
)

FURTHER = (
    Channel(name="turning_spindle_speed", quantity="rotational speed", unit="rpm"),
    Channel(name="feed_override", quantity="override", unit="%"),
    Channel(name="coolant_pressure", quantity="pressure", unit="bar"),
)
STEP, NEAR, HEAD = "network.step.0.weight", "network.near.weight", "network.head.linear.weight"


def commanded_by(*further: Channel) -> Schema:
    return SCHEMA.model_copy(update={"commands": (*SCHEMA.commands, *further)})


def framed(schema: Schema) -> Normaliser:
    """The small normaliser with further commands seen from zero, in their own units."""
    base, more = normaliser(), np.zeros(len(schema.commands) - COMMANDS)
    return replace(
        base,
        command_names=schema.command_names,
        command_location=np.concatenate([base.command_location, more]),
        command_scale=np.concatenate([base.command_scale, more + 1.0]),
    )


def grown(further: tuple[Channel, ...], seed: int = 0, **changes: int) -> tuple[SensorModel, SensorModel]:
    """A network as training might leave it, and the same for a machine with further commands."""
    known, schema = stirred(seed, identity="described", **changes), commanded_by(*further)
    wider = SensorModel(known.config, schema, framed(schema)).double().eval()
    wider.load_state_dict(with_further_commands(known.state_dict(), known.config, SCHEMA, schema))
    return known, wider


def with_more(batch: WindowBatch, further: int, seed: int = 0, varying: bool = True) -> WindowBatch:
    """The same windows of a machine that is commanded by more, which changes at random or stands at 1."""
    chance = torch.Generator().manual_seed(seed)

    def wider(a: torch.Tensor) -> torch.Tensor:
        shape = (*a.shape[:-1], further)
        more = torch.randn(shape, generator=chance, dtype=a.dtype) if varying else torch.ones(shape, dtype=a.dtype)
        return torch.cat([a, more], -1)

    future_a_BTA = wider(batch.future_a_BTA)
    mean_a_BHA = torch.stack([future_a_BTA[:, :horizon].mean(1) for horizon in HORIZONS], 1)
    return replace(batch, a_BKA=wider(batch.a_BKA), future_a_BTA=future_a_BTA, mean_a_BHA=mean_a_BHA)


def say_without_their_past(model: SensorModel, batch: WindowBatch) -> Mixture:
    plain = SensorNetwork.present

    def present(network: SensorNetwork, window: SensorWindow) -> torch.Tensor:
        allowed = plain(network, window).clone()
        allowed[:, len(window.present_BC[0]) + COMMANDS :] = False
        return allowed

    with patch.object(SensorNetwork, "present", present):
        return say(model, batch)


@given(st.integers(0, 2**31), st.permutations(FURTHER), st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_it_says_what_it_said_while_further_commands_stand_and_their_past_is_not_read(
    seed: int, order: list[Channel], count: int, members: int, movers: int
) -> None:
    known, wider = grown(tuple(order[:count]), seed % 1000, members=members, movers=movers)
    batch = windows(seed=seed)
    still = with_more(batch, count, varying=False)
    assert_same(say_without_their_past(wider, still), say(known, batch))


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_further_commands_that_change_multiply_what_stands_by_their_faint_power(seed: int) -> None:
    known, wider = grown(FURTHER, seed % 1000)
    batch = with_more(windows(seed=seed, presence=1.0), len(FURTHER), seed)
    before, after = say(known, windows(seed=seed, presence=1.0)), say_without_their_past(wider, batch)
    for same in ("log_weight_M", "scale_M"):
        torch.testing.assert_close(getattr(after, same), getattr(before, same), rtol=0.0, atol=1e-10)
    effort_BSG = wider.command_features(batch.a_BKA, batch.future_a_BTA).effort_BSG[..., 1:4] + SMALL
    planned_BHG = effort_BSG[:, [CONTEXT + horizon - 1 for horizon in HORIZONS]]
    change_BH1 = (planned_BHG / effort_BSG[:, CONTEXT - 1 : CONTEXT]).log().sum(-1, keepdim=True)
    zero_C = wider.network.head.zero_C
    far_BHC = [(said.mean_M[..., 0] - zero_C)[..., REACHED].abs() for said in (before, after)]
    last_B1C = (batch.x_BKC[:, -1:] - zero_C)[..., REACHED].abs()
    bent_BHC = [(far / last_B1C).log().clamp(LOWEST, HIGHEST) for far in far_BHC]
    expected_BHC = (bent_BHC[0] + FAINT * change_BH1).clamp(LOWEST, HIGHEST)
    free = (bent_BHC[0] > LOWEST + 1e-6) & (bent_BHC[0] < HIGHEST - 1e-6)
    torch.testing.assert_close(bent_BHC[1][free], expected_BHC[free], rtol=0.0, atol=1e-6)


def test_gradients_reach_what_is_new() -> None:
    known, wider = grown(FURTHER)
    batch = with_more(windows(), len(FURTHER))
    batch.future_a_BTA[:, 1:3] = wider.command_features.zero_A  # whether a command stands is a feature too
    context = wider.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA)
    said = wider.decode(context, Plan.under(batch.future_a_BTA, HORIZONS)).distribution
    said.crps(batch.future_x_BHC).mean().backward()
    before, parameters = known.state_dict(), dict(wider.named_parameters())
    assert all(parameters[name].shape != before[name].shape for name in (STEP, NEAR, HEAD))
    for name in (STEP, NEAR):
        gradient = parameters[name].grad
        assert gradient is not None
        assert (gradient != 0.0).flatten(0, -2).any(0).all(), f"a column of {name} stays as it is"
    exponents = parameters[HEAD].grad
    assert exponents is not None
    assert (exponents[:, -wider.network.head.parts["exponent"] :] != 0.0).any(-1).all()


@given(st.permutations(range(len(FURTHER))), st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_the_order_of_further_commands_does_not_matter(order: list[int], seed: int) -> None:
    one, two = grown(FURTHER, seed)[1], grown(tuple(FURTHER[place] for place in order), seed)[1]
    batch = with_more(windows(seed=seed), len(FURTHER), seed)
    columns = [*range(COMMANDS), *(COMMANDS + place for place in order)]
    other = replace(batch, **{
        name: getattr(batch, name)[..., columns] for name in ("a_BKA", "future_a_BTA", "mean_a_BHA")
    })  # fmt: skip
    assert_same(say(one, batch), say(two, other))


def test_a_further_axis_joins_the_path_and_says_nothing_while_it_stands() -> None:
    known, wider = grown((Channel(name="feed_z", quantity="feed", unit="mm/min"),))
    batch = windows()
    still = with_more(batch, 1, varying=False)
    still = replace(still, **{
        name: torch.cat([getattr(batch, name), torch.zeros_like(getattr(batch, name)[..., :1])], -1)
        for name in ("a_BKA", "future_a_BTA", "mean_a_BHA")
    })  # fmt: skip
    assert wider.command_features.groups == known.command_features.groups
    assert_same(say_without_their_past(wider, still), say(known, batch))


def test_features_lie_where_the_wider_schema_has_them() -> None:
    """Groups of further commands come before the feeds, not after them."""
    schema = commanded_by(*FURTHER)
    assert schema.command_groups == ((0,), (3,), (4,), (5,), (1, 2))
    known, wider = grown(FURTHER)
    features_of = CommandFeatures(schema, framed(schema), CONTEXT, HORIZONS[-1])
    weight, wide = (model.state_dict()["network.step.0.weight"] for model in (known, wider))
    assert wide.shape[-1] == features_of.count
    assert int((wide == 0.0).all(1).sum()) == features_of.count - weight.shape[-1]
    torch.testing.assert_close(wide[..., len(schema.commands)], weight[..., COMMANDS], msg="the change of the first")


def test_a_met_network_reads_further_commands_where_the_schema_has_them() -> None:
    known = stirred(identity="described")
    schema = readable_schema(commanded_by(*FURTHER), SCHEMA, further=True)
    assert schema.command_names[COMMANDS:] == tuple(channel.name for channel in FURTHER)
    met = in_frame(known, schema, framed(schema))
    assert met.schema == schema
    again = in_frame(met, schema, framed(schema))
    for name, tensor in met.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), "nothing is new the second time"


@pytest.mark.parametrize("standing", [True, False])
def test_new_exponents_begin_faint(standing: bool) -> None:
    _, wider = grown(FURTHER)
    head = wider.network.head
    bias_WG = head.linear.bias[0, -head.parts["exponent"] :].view(head.movers + 1, head.groups)
    rows = slice(0, 1) if standing else slice(1, None)
    begin = STEEPEST * torch.sigmoid(bias_WG + head.prior_CWG[1])[rows, 2:4]
    torch.testing.assert_close(begin, torch.full_like(begin, FAINT), rtol=1e-5, atol=0.0)
