"""Members of a sensor model: what they share, where they differ, and what a path keeps to."""

import pytest
import torch

from crossfeed.distribution import Mixture
from crossfeed.model.plan import Plan
from tests.model.sensors.contexts import encode
from tests.model.sensors.small import (
    HORIZONS,
    SENSORS,
    assert_same,
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
        alone = [mixture for _, mixture in model.members_say(encode(model, batch), Plan.of(batch, HORIZONS))]
    for number, mixture in enumerate(alone):
        own = slice(number * components, (number + 1) * components)
        assert torch.equal(said.mean_M[..., own], mixture.mean_M)
        torch.testing.assert_close(3.0 * said.weight_M[..., own], mixture.weight_M)
    torch.testing.assert_close(said.mean, torch.stack([mixture.mean for mixture in alone]).mean(0))


@pytest.mark.parametrize("paths", [1, 2, 3, 7])
def test_a_path_keeps_to_its_member(paths: int) -> None:
    model, batch = stirred(members=3), windows(size=paths)
    model.widening_H.copy_(torch.tensor([1.0, 1.5, 2.5]))
    rows = model.read(batch.x_BKC, batch.m_BKC, model.level(batch.x_BKC, batch.m_BKC))
    plan = Plan.of(batch, HORIZONS)
    with torch.no_grad():
        followed = model.follow_paths(rows, batch.a_BKA, plan)
        alone = [mixture for _, mixture in model.members_say(encode(model, batch), plan)]
    assert followed.shape == (paths, len(HORIZONS), SENSORS)
    for path in range(paths):
        own = alone[path % 3]
        torch.testing.assert_close(followed.mean_M[path], own.mean_M[path], rtol=0, atol=1e-10)
        wider = own.scale_M[path] * model.widening_H[:, None, None]
        torch.testing.assert_close(followed.scale_M[path], wider, rtol=0, atol=1e-10)


def test_a_single_member_follows_paths_as_it_forecasts() -> None:
    model, batch = stirred(), windows()
    rows = model.read(batch.x_BKC, batch.m_BKC, model.level(batch.x_BKC, batch.m_BKC))
    with torch.no_grad():
        followed = model.follow_paths(rows, batch.a_BKA, Plan.of(batch, HORIZONS))
    assert isinstance(followed, Mixture)
    assert_same(followed.broadcast(), say(model, batch))


def test_members_disagree_and_a_single_one_does_not() -> None:
    batch = windows()
    plan = Plan.of(batch, HORIZONS)
    alone, several = stirred(), stirred(members=3)
    with torch.no_grad():
        assert (alone.disagreement(encode(alone, batch), plan) == 0.0).all()
        found = several.disagreement(encode(several, batch), plan)
        means = torch.stack([said.mean for _, said in several.members_say(encode(several, batch), plan)])
    assert found.shape == (4, len(HORIZONS), SENSORS)
    assert (found > 0.0).all()
    torch.testing.assert_close(found, (means - means.mean(0)).square().mean(0).sqrt())


def test_members_start_from_different_weights() -> None:
    first, second = fresh(members=2).members
    assert not torch.equal(first.step[0].weight, second.step[0].weight)
    assert not torch.equal(first.sensors.own, second.sensors.own)


def test_a_widening_widens_its_horizon_and_moves_nothing() -> None:
    model, batch = stirred(), windows()
    before = say(model, batch, (1, 2, 3, 4))
    model.widening_H.copy_(torch.tensor([1.0, 2.0, 3.0]))
    after = say(model, batch, (1, 2, 3, 4))
    assert torch.equal(before.mean_M, after.mean_M)
    ratio_H = (after.scale_M / before.scale_M)[0, :, 0, 0]
    between = 2.0 + torch.log(torch.tensor(1.5)).item() / torch.log(torch.tensor(2.0)).item()
    assert ratio_H.tolist() == pytest.approx([1.0, 2.0, between, 3.0])
