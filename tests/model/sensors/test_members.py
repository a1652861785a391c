"""Members of a sensor model: what they share, where they differ, and what a path keeps to."""

import pytest
import torch

from crossfeed.model.interface import Plan
from tests.model.sensors.contexts import encode
from tests.model.sensors.small import (
    HORIZONS,
    SENSORS,
    fresh,
    say,
    stirred,
    windows,
)


def test_pooled_members_keep_their_components_and_share_the_weight() -> None:
    model, batch = stirred(members=3), windows()
    components = model.config.movers + 2
    said = say(model, batch)
    assert said.mean_M.shape[-1] == 3 * components
    with torch.no_grad():
        _, alone = model.member_mixtures(encode(model, batch), Plan.of(batch, HORIZONS))
    for number in range(3):
        mixture = alone[number]
        own = slice(number * components, (number + 1) * components)
        assert torch.equal(said.mean_M[..., own], mixture.mean_M)
        torch.testing.assert_close(3.0 * said.weight_M[..., own], mixture.weight_M)
    torch.testing.assert_close(said.mean, alone.mean.mean(0))


def test_members_disagree_and_a_single_one_does_not() -> None:
    batch = windows()
    plan = Plan.of(batch, HORIZONS)
    alone, several = stirred(), stirred(members=3)
    with torch.no_grad():
        assert (alone.decode(encode(alone, batch), plan).disagreement == 0.0).all()
        found = several.decode(encode(several, batch), plan).disagreement
        means = several.member_mixtures(encode(several, batch), plan)[1].mean
    assert found.shape == (4, len(HORIZONS), SENSORS)
    assert (found > 0.0).all()
    torch.testing.assert_close(found, (means - means.mean(0)).square().mean(0).sqrt())


def test_members_start_from_different_weights() -> None:
    for name, parameter in fresh(members=2).network.named_parameters():
        first, second = parameter
        begins_as_persistence = name.startswith("head.") or (".attention." in name and name.endswith("bias"))
        assert torch.equal(first, second) == begins_as_persistence, name


def test_a_member_taken_out_says_what_it_said_among_the_others() -> None:
    model, batch = stirred(members=3), windows()
    plan = Plan.of(batch, HORIZONS)
    with torch.no_grad():
        _, all_of_them = model.member_mixtures(encode(model, batch), plan)
        for number in range(3):
            alone = model.member(number)
            assert alone.members == 1
            _, own = alone.member_mixtures(encode(alone, batch), plan)
            torch.testing.assert_close(own[0].mean_M, all_of_them[number].mean_M, rtol=0, atol=1e-12)
            torch.testing.assert_close(own[0].scale_M, all_of_them[number].scale_M, rtol=0, atol=1e-12)


def test_members_do_not_read_each_other() -> None:
    model, batch = stirred(members=2), windows()
    plan = Plan.of(batch, HORIZONS)
    with torch.no_grad():
        before = model.member_mixtures(encode(model, batch), plan)[1].mean
        for parameter in model.network.parameters():
            parameter[1].mul_(1.5)
        after = model.member_mixtures(encode(model, batch), plan)[1].mean
    torch.testing.assert_close(after[0], before[0], rtol=0, atol=1e-12)
    assert not torch.allclose(after[1], before[1])


def test_sensors_that_nobody_looks_at_cost_nothing() -> None:
    """An evaluation on a machine with 10 of 17 sensors forecast the other seven as well, and judged none of them."""
    model, batch = stirred(members=2), windows()
    m_BKC = batch.m_BKC.clone()
    m_BKC[..., 1] = False
    present_C = m_BKC.flatten(0, 1).any(0)
    channels = model.channels_to_read(present_C, absent_too=False)
    assert channels is not None
    assert model.channels_to_read(present_C) is None, "an absent sensor can be forecast from the others"
    assert channels.tolist() == [0, *range(2, SENSORS)]
    plan = Plan.of(batch, HORIZONS)
    with torch.no_grad():
        found, wanted = (
            model.decode(model.encode(batch.x_BKC, m_BKC, batch.a_BKA, chosen), plan) for chosen in (channels, None)
        )
    assert found.context.token_EBND.shape[2] == wanted.context.token_EBND.shape[2] - 1
    for one, two in ((found.distribution.mean, wanted.distribution.mean), (found.disagreement, wanted.disagreement)):
        assert one.shape == two.shape
        torch.testing.assert_close(one[..., channels], two[..., channels], rtol=0, atol=1e-9)
    said = found.distribution
    assert (said.mean[..., 1] == 0.0).all()
    assert (said.standard_deviation[..., 1] == 1.0).all()
    assert (found.disagreement[..., 1] == 0.0).all()
    assert model.channels_to_read(torch.ones(SENSORS, dtype=torch.bool), absent_too=False) is None


def test_a_widening_widens_its_horizon_and_moves_nothing() -> None:
    model, batch = stirred(), windows()
    before = say(model, batch, (1, 2, 3, 4))
    model.variance_inflation_H.copy_(torch.tensor([1.0, 2.0, 3.0]))
    after = say(model, batch, (1, 2, 3, 4))
    assert torch.equal(before.mean_M, after.mean_M)
    ratio_H = (after.scale_M / before.scale_M)[0, :, 0, 0]
    # Horizon 3 is answered by horizon 4.
    assert ratio_H.tolist() == pytest.approx([1.0, 2.0, 3.0, 3.0])
