"""The anchor: nothing at first, then a factor on the level that means the same wherever the level is."""

from typing import Any

import numpy as np
import pytest
import torch

from crossfeed.model.interface import Plan
from crossfeed.model.jepa.predictor import Anchor
from crossfeed.model.world_model import WorldModel
from tests.model import toy


def anchored(**settings: Any) -> WorldModel:
    changes = {"model.instance_norm.kind": "anchored", **{f"model.instance_norm.{k}": v for k, v in settings.items()}}
    return toy.model(toy.method(changes))


def anchor_of(model: WorldModel) -> Anchor:
    assert model.head.anchor is not None
    return model.head.anchor


def test_a_fresh_anchor_changes_nothing() -> None:
    model, centred = anchored(), toy.model(toy.method({"model.instance_norm.kind": "centred"}))
    centred.load_state_dict({name: value for name, value in model.state_dict().items() if "anchor" not in name})
    batch = toy.batch()
    torch.testing.assert_close(model(batch).distribution.mean, centred(batch).distribution.mean)


def test_a_model_that_saw_no_levels_could_not_foresee_a_stop() -> None:
    """Now it can: whatever the level was, it will be gone."""
    model = anchored(reach=10.0)
    with torch.no_grad():
        anchor_of(model).change.bias.fill_(-20.0)
        model.head.mean.weight.zero_()
        model.head.mean.bias.zero_()
    for shift in (0.0, 1.5, -2.0):
        batch = toy.batch()
        x_BKC = torch.where(batch.m_BKC, batch.x_BKC + shift, 0.0)
        context = model.encode(x_BKC, batch.m_BKC, batch.a_BKA)
        said = model.decode(context, Plan.of(batch, model.horizons)).distribution
        physical = model.normaliser.inverse_sensors(said.mean.detach().numpy())
        np.testing.assert_allclose(physical, 0.0, atol=1e-4)


def test_sensors_that_are_never_near_zero_are_left_alone() -> None:
    zero_C = toy.normaliser().transform_sensors(np.zeros((1, 5)))[0]
    anchor = anchor_of(anchored(reach=0.9))
    assert anchor.reached_C.tolist() == (np.abs(zero_C) <= 0.9).tolist()
    assert 0 < int(anchor.reached_C.sum()) < 5
    with torch.no_grad():
        anchor.change.bias.fill_(3.0)
    change_BHC = anchor(torch.randn(2, 3, 16), torch.randn(2, 5))
    assert (change_BHC[..., ~anchor.reached_C] == 0.0).all()
    assert (change_BHC[..., anchor.reached_C] != 0.0).all()


@pytest.mark.parametrize("kind", ["none", "centred", "pure"])
def test_other_kinds_have_no_anchor(kind: str) -> None:
    assert toy.model(toy.method({"model.instance_norm.kind": kind})).head.anchor is None
