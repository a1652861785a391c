"""Plans that nobody drove: feeds change, turning alone stays, cutting follows, and what is unknown is not judged."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from crossfeed.schema import Schema
from crossfeed.windows.augment import CUTTING, PlanAugmentation, PlanChanges
from crossfeed.windows.corrupt import generator_draw
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet
from tests.windows.spindle import HORIZONS, SCHEMA, normaliser, spindle_table, spindle_windows, turning
from tests.windows.tables import random_table, tiny_schema

WINDOWS = spindle_windows()
EVERY = torch.arange(0, len(WINDOWS), 7)


def plans(share: float = 0.5) -> PlanAugmentation:
    return PlanAugmentation(PlanChanges(share=share), SCHEMA, normaliser(), WINDOWS)


def power(batch: WindowBatch) -> np.ndarray:
    return normaliser().inverse_sensors(batch.future_x_BHC.double().numpy())[..., 0]


def commanded(batch: WindowBatch) -> np.ndarray:
    return normaliser().inverse_commands(batch.future_a_BTA.double().numpy())


def under(factor: float, first: int = 1) -> tuple[WindowBatch, WindowBatch]:
    batch = WINDOWS.batch(EVERY)
    ones = torch.ones(len(EVERY))
    return batch, plans().under(batch, factor * ones, first * ones.long())


@pytest.mark.parametrize("factor", [0.0, 0.6, 1.2])
def test_cutting_follows_the_feed_and_turning_stays(factor: float) -> None:
    batch, changed = under(factor)
    judged = changed.future_m_BHC[..., 0].numpy()
    assert judged.any()
    alone = turning(commanded(batch)[:, [h - 1 for h in HORIZONS], 0])
    expected = alone + (power(batch) - alone) * factor**CUTTING
    np.testing.assert_allclose(power(changed)[judged], expected[judged], atol=1e-4)


def test_the_feeds_are_what_was_asked_and_the_spindle_is_left_alone() -> None:
    batch, changed = under(0.6, first=3)
    before, after = commanded(batch), commanded(changed)
    np.testing.assert_allclose(after[:, :2], before[:, :2], atol=1e-3)
    np.testing.assert_allclose(after[:, 2:, 1], 0.6 * before[:, 2:, 1], atol=1e-3)
    np.testing.assert_allclose(after[..., 0], before[..., 0], atol=1e-3)
    upto = np.stack([after[:, :h].mean(1) for h in HORIZONS], 1)
    np.testing.assert_allclose(normaliser().inverse_commands(changed.mean_a_BHA.double().numpy()), upto, atol=1e-3)


def test_what_comes_before_the_change_is_judged_as_it_was() -> None:
    batch, changed = under(0.0, first=3)
    assert torch.equal(changed.future_x_BHC[:, :2], batch.future_x_BHC[:, :2])
    assert torch.equal(changed.future_m_BHC[:, :2], batch.future_m_BHC[:, :2])
    assert not changed.future_m_BHC[:, 2:, 1].any(), "nobody knows what the axis would have needed"


def test_a_spindle_that_accelerates_is_not_judged() -> None:
    batch, changed = under(0.6)
    rows = torch.cat([batch.a_BKA, batch.future_a_BTA], 1)[..., 0]
    for slot, horizon in enumerate(HORIZONS):
        at = batch.a_BKA.shape[1] + horizon - 1
        steady = (rows[:, at - 3 : at + 1] == rows[:, at : at + 1]).all(1)
        assert torch.equal(changed.future_m_BHC[:, slot, 0], steady)


def test_windows_whose_feeds_stay_are_left_as_they_are() -> None:
    batch, changed = under(1.0)
    for name in ("future_x_BHC", "future_m_BHC", "future_a_BTA"):
        assert torch.equal(getattr(changed, name), getattr(batch, name))


@given(st.floats(0.0, 1.0), st.integers(0, 100))
def test_about_the_share_asked_for_is_changed_and_nothing_becomes_no_number(share: float, seed: int) -> None:
    batch = WINDOWS.batch(torch.arange(400))
    changed = plans(max(share, 1e-6))(batch, generator_draw(torch.Generator().manual_seed(seed)))
    moving = (commanded(batch)[..., 1] > 0).all(1)
    other = (changed.future_a_BTA - batch.future_a_BTA).abs().amax((1, 2)).numpy() > 1e-6
    assert abs(other[moving].mean() - share) < 0.2
    assert all(getattr(changed, name).isfinite().all() for name in ("future_x_BHC", "future_a_BTA", "mean_a_BHA"))
    assert (changed.future_x_BHC[~changed.future_m_BHC] == 0.0).all()


def test_machines_without_feeds_or_without_a_spindle_are_left_alone() -> None:
    table = random_table([80], schema=tiny_schema())
    frame = Normaliser(
        method="zscore", floor=0.0, sensor_names=table.schema.sensor_names, command_names=table.schema.command_names,
        sensor_location=np.zeros(3), sensor_scale=np.ones(3), command_location=np.zeros(2), command_scale=np.ones(2),
        unseen=(), fitted_on="0" * 64,
    )  # fmt: skip
    windows = WindowSet.build([table], None, frame)
    assert not PlanAugmentation(PlanChanges(share=0.5), table.schema, frame, windows).active
    no_feed = Schema(name="n", sensors=SCHEMA.sensors, commands=SCHEMA.commands[:1])
    assert not PlanAugmentation(PlanChanges(share=0.5), no_feed, normaliser(), WINDOWS).active
    assert not plans(0.0).active


def test_a_machine_that_is_told_no_speed_ended_in_a_traceback() -> None:
    feeds_only = Schema(name="n", sensors=SCHEMA.sensors, commands=SCHEMA.commands[1:])
    assert not PlanAugmentation(PlanChanges(share=0.5), feeds_only, normaliser(), WINDOWS).active


def test_a_context_shorter_than_a_steady_stretch_ended_in_a_traceback() -> None:
    short = WindowSet.build([spindle_table()], None, normaliser(), context=2, horizons=HORIZONS)
    batch = short.batch(torch.arange(50))
    turned = PlanAugmentation(PlanChanges(share=0.5), SCHEMA, normaliser(), short)
    ones = torch.ones(50)
    changed = turned.under(batch, 0.0 * ones, ones.long())
    assert changed.future_m_BHC[..., 0].any()


def test_a_speed_that_was_never_logged_is_not_judged() -> None:
    """It was taught that a held feed changes nothing there."""
    batch = WINDOWS.batch(EVERY)
    faster = normaliser().transform_commands(np.array([9000.0, 300.0]))[0]
    batch.a_BKA[..., 0], batch.future_a_BTA[..., 0] = faster, faster
    ones = torch.ones(len(EVERY))
    assert not plans().under(batch, 0.0 * ones, ones.long()).future_m_BHC.any()


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(ValidationError):
        PlanChanges(share=1.5)


def test_three_in_ten_of_the_changed_plans_hold_the_feed_and_half_begin_at_once() -> None:
    rows = HORIZONS[-1]
    draw = generator_draw(torch.Generator().manual_seed(0))
    factor_B, first_B = plans(1.0)._drawn(WINDOWS.batch(torch.randint(len(WINDOWS), (20_000,))), draw)
    held_B = factor_B == 0.0
    assert held_B.double().mean().item() == pytest.approx(0.3, abs=0.015)
    turned_B = factor_B[~held_B]
    assert turned_B.min().item() == pytest.approx(0.2, abs=0.01)
    assert turned_B.max().item() == pytest.approx(1.3, abs=0.01)
    share_T = torch.bincount(first_B, minlength=rows + 1)[1:] / len(first_B)
    assert share_T.tolist() == pytest.approx([0.5 + 0.5 / rows, *[0.5 / rows] * (rows - 1)], abs=0.015)
