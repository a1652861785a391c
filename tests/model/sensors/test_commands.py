"""Commands as what they mean: causal, finite whatever is commanded, and zero where a drive stands."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crossfeed.model.sensors.commands import FILTERS, CommandFeatures, steps_ahead
from crossfeed.schema import Channel, Schema, canonical
from tests.model.sensors.small import COMMANDS, CONTEXT, HORIZONS, SCHEMA, normaliser

LONGEST = HORIZONS[-1]
GROUPS = 2  # the spindle, and all feeds together


def features_of() -> CommandFeatures:
    return CommandFeatures(SCHEMA, normaliser(), CONTEXT, LONGEST).double()


def commands(seed: int, size: int = 3) -> tuple[Tensor, Tensor]:
    both = torch.randn(size, CONTEXT + LONGEST, COMMANDS, generator=torch.Generator().manual_seed(seed)).double()
    return both[:, :CONTEXT], both[:, CONTEXT:]


def standing(rows: int) -> Tensor:
    """Commands of a machine that stands, in z-space."""
    zero_A = torch.from_numpy(normaliser().transform_commands(torch.zeros(1, COMMANDS).numpy()))[0]
    return zero_A.double().expand(1, rows, COMMANDS)


def test_feeds_make_one_path_and_every_other_command_stands_for_itself() -> None:
    assert SCHEMA.command_groups == ((0,), (1, 2))
    assert canonical().command_groups == ((0,), (1, 2, 3))
    spindle_only = Schema(name="spindle", sensors=SCHEMA.sensors, commands=SCHEMA.commands[:1])
    assert spindle_only.command_groups == ((0,),)
    two = tuple(Channel(name=name, quantity="rotational speed", unit="rpm") for name in ("spindle", "counter_spindle"))
    assert Schema(name="two", sensors=SCHEMA.sensors, commands=two).command_groups == ((0,), (1,))


@given(st.integers(0, 2**31), st.integers(0, LONGEST - 1))
@settings(max_examples=30, deadline=None)
def test_a_step_is_described_by_no_later_command(seed: int, step: int) -> None:
    (past, future), (_, other) = commands(seed), commands(seed + 1)
    changed = torch.cat([future[:, : step + 1], 100.0 * other[:, step + 1 :]], 1)
    one, two = features_of()(past, future), features_of()(past, changed)
    torch.testing.assert_close(one.step_BTF[:, : step + 1], two.step_BTF[:, : step + 1], rtol=0, atol=1e-12)
    upto = CONTEXT + step + 1
    torch.testing.assert_close(one.effort_BSG[:, :upto], two.effort_BSG[:, :upto], rtol=0, atol=1e-12)
    if step < LONGEST - 1:
        assert not torch.equal(one.step_BTF[:, step + 1 :], two.step_BTF[:, step + 1 :])


@given(st.integers(0, 2**31), st.integers(1, LONGEST))
@settings(max_examples=20, deadline=None)
def test_a_shorter_plan_has_the_same_features(seed: int, steps: int) -> None:
    past, future = commands(seed)
    whole, part = features_of()(past, future), features_of()(past, future[:, :steps])
    assert part.step_BTF.shape == (3, steps, features_of().count)
    assert part.effort_BSG.shape == (3, CONTEXT + steps, GROUPS)
    torch.testing.assert_close(part.step_BTF, whole.step_BTF[:, :steps], rtol=0, atol=1e-12)


def test_departures_are_those_of_a_leaky_memory() -> None:
    past, future = commands(0)
    seen = features_of().from_zero(torch.cat([past, future], 1))
    found = features_of()(past, future).step_BTF[..., 2 * COMMANDS : (2 + len(FILTERS)) * COMMANDS]
    expected = []
    for strength in FILTERS:
        memory, departures = seen[:, 0], []
        for row in range(1, CONTEXT + LONGEST):
            departures.append(seen[:, row] - memory)
            memory = strength * memory + (1.0 - strength) * seen[:, row]
        expected.append(torch.stack(departures[CONTEXT - 1 :], 1))
    torch.testing.assert_close(found, torch.cat(expected, -1), rtol=0, atol=1e-6)


def test_what_stands_has_no_change_no_effort_and_says_so() -> None:
    features = features_of()(standing(CONTEXT), standing(LONGEST)).step_BTF
    stands = slice((2 + len(FILTERS)) * COMMANDS, (3 + len(FILTERS)) * COMMANDS)
    assert (features[..., stands] == 1.0).all()
    features = torch.cat([features[..., : stands.start], features[..., stands.stop :]], -1)
    assert features.abs().max() < 1e-3


def test_effort_is_the_speed_along_the_path_seen_from_standing() -> None:
    physical = torch.tensor([1500.0, 400.0 * 3.0, 400.0 * 4.0]).double().expand(1, CONTEXT, COMMANDS)
    z = normaliser().transform_commands(physical.numpy())
    effort = features_of()(torch.from_numpy(z), standing(LONGEST)).effort_BSG
    assert effort[0, :CONTEXT].flatten().tolist() == pytest.approx([1.0, 5.0] * CONTEXT, abs=1e-6)
    assert effort[0, CONTEXT:].abs().max() < 1e-3


def test_commands_that_do_not_change_have_neither_change_nor_ratio() -> None:
    held = torch.full((1, CONTEXT + LONGEST, COMMANDS), 0.7).double()
    features = features_of()(held[:, :CONTEXT], held[:, CONTEXT:]).step_BTF[0]
    value, rest = features[:, :COMMANDS], features[:, COMMANDS:]
    assert (value == value[0]).all()
    changes = rest[:, : (1 + len(FILTERS)) * COMMANDS]
    assert changes.abs().max() < 1e-6
    effort, step, ratio, mean, turned, turned_since = features[:, -6 * GROUPS :].split(GROUPS, -1)
    assert step.abs().max() < 1e-12
    assert min(turned.min(), turned_since.min()) > 0.99
    assert ratio.abs().max() < 1e-12
    torch.testing.assert_close(mean, effort)


def test_a_turned_knob_keeps_its_direction_and_the_next_cut_does_not() -> None:
    """Feeds at 60 % along the same path, then the same feeds the other way, then standing."""
    away = torch.tensor([1500.0, 900.0, 1200.0]).double() * torch.tensor([[1.0, 1.0, 1.0]] * CONTEXT)
    plan = away[:1] * torch.tensor([[1.0, 0.6, 0.6], [1.0, -0.6, -0.6], [1.0, 0.0, 0.0]])
    z = [torch.from_numpy(normaliser().transform_commands(part.numpy())).unsqueeze(0) for part in (away, plan)]
    features = features_of()(z[0], z[1]).step_BTF[0]
    turned, since = features[:, -2 * GROUPS :].split(GROUPS, -1)
    assert turned[:, 1].tolist() == pytest.approx([1.0, -1.0, 0.0], abs=0.01)
    assert since[:, 1].tolist() == pytest.approx([1.0, -1.0, 0.0], abs=0.01)


@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 1e6])
def test_features_and_gradients_are_finite_for_commands_of_any_size(size: float) -> None:
    """The root of a sum of squares has an infinite slope at zero, the logarithm of a ratio at a standing machine."""
    past, future = (size * part + standing(part.shape[1]) for part in commands(0))
    future = future.requires_grad_()
    said = features_of()(past, future)
    (said.step_BTF.sum() + said.effort_BSG.sum()).backward()
    assert said.step_BTF.isfinite().all()
    assert said.effort_BSG.isfinite().all()
    assert future.grad is not None
    assert future.grad.isfinite().all()


def test_steps_are_counted_from_one() -> None:
    assert steps_ahead(3, torch.zeros(1).double()).flatten().tolist() == [1.0, 2.0, 3.0]


def test_a_context_of_one_row_is_enough() -> None:
    past, future = commands(0)
    said = CommandFeatures(SCHEMA, normaliser(), 1, LONGEST).double()(past[:, -1:], future)
    assert said.step_BTF.isfinite().all()
    assert said.effort_BSG.shape == (3, 1 + LONGEST, GROUPS)
