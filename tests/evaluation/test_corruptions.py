"""Each corruption does what its name says, to the context only, in any batch alike."""

import numpy as np
import pytest
import torch

from crossfeed.evaluation.robustness import CORRUPTIONS, SPIKE, coarse, corrupted
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet
from tests.evaluation.small_machine import CONTEXT, normaliser_of, small_table, window_set


@pytest.fixture(scope="module")
def normaliser() -> Normaliser:
    return normaliser_of(small_table())


@pytest.fixture(scope="module")
def windows(normaliser: Normaliser) -> WindowSet:
    table = small_table(runs=12, rows=100)
    table.sensors[np.random.default_rng(0).random(table.sensors.shape) < 0.05] = np.nan
    return window_set(table, normaliser)


@pytest.fixture(scope="module")
def batch(windows: WindowSet) -> WindowBatch:
    return windows.batch(torch.arange(len(windows)))


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_only_the_context_changes_and_absent_stays_absent(
    kind: str, batch: WindowBatch, windows: WindowSet, normaliser: Normaliser
) -> None:
    for amount in CORRUPTIONS[kind][1]:
        changed = corrupted(batch, kind, amount, normaliser, 7)
        assert not torch.equal(changed.x_BKC, batch.x_BKC)
        assert not changed.x_BKC[~changed.m_BKC].any()
        if kind != "clock jitter":
            assert not (changed.m_BKC & ~batch.m_BKC).any()
        for name in ("future_x_BHC", "future_m_BHC", "future_a_BTA", "mean_a_BHA", "a_BKA"):
            assert getattr(changed, name) is getattr(batch, name)
        part = torch.arange(40, 60)
        alone = corrupted(windows.batch(part), kind, amount, normaliser, 7)
        assert torch.equal(alone.x_BKC, changed.x_BKC[part])
        other = corrupted(batch, kind, amount, normaliser, 8)
        assert not torch.equal(other.x_BKC, changed.x_BKC)


def test_the_amounts_are_what_they_say(batch: WindowBatch, normaliser: Normaliser) -> None:
    present = batch.m_BKC

    def moved(kind: str, amount: float) -> torch.Tensor:
        return (corrupted(batch, kind, amount, normaliser, 1).x_BKC - batch.x_BKC)[present]

    assert moved("noise", 0.3).std().item() == pytest.approx(0.3, rel=0.02)
    assert moved("noise", 0.3).mean().item() == pytest.approx(0.0, abs=0.01)
    hit = moved("spikes", 0.1) != 0
    assert hit.float().mean().item() == pytest.approx(0.1, abs=0.01)
    assert moved("spikes", 0.1)[hit].abs().allclose(torch.tensor(SPIKE))
    assert moved("bias", 2.0).abs().allclose(torch.tensor(2.0), atol=1e-4)
    lost = corrupted(batch, "missing points", 0.3, normaliser, 1).m_BKC
    assert 1 - (lost.sum() / present.sum()).item() == pytest.approx(0.3, abs=0.02)


def test_drift_starts_at_nothing_and_ends_at_its_amount(batch: WindowBatch, normaliser: Normaliser) -> None:
    difference = corrupted(batch, "drift", 1.0, normaliser, 1).x_BKC - batch.x_BKC
    whole = batch.m_BKC.all(1)
    assert not difference[:, 0].any()
    torch.testing.assert_close(difference[:, -1][whole].abs(), torch.ones(int(whole.sum())), atol=1e-5, rtol=0)


def test_a_stuck_sensor_repeats_one_value_in_about_a_third_of_the_channels(
    batch: WindowBatch, normaliser: Normaliser
) -> None:
    changed = corrupted(batch, "stuck sensor", 0.5, normaliser, 1)
    half = CONTEXT // 2
    tail = changed.x_BKC[:, half:]
    whole = batch.m_BKC.all(1)
    still = (tail == changed.x_BKC[:, half - 1, None]).all(1) & whole
    assert (still.sum() / whole.sum()).item() == pytest.approx(1 / 3, abs=0.06)


def test_a_unit_slip_multiplies_the_physical_values_of_one_channel(batch: WindowBatch, normaliser: Normaliser) -> None:
    changed = corrupted(batch, "unit slip", 60.0, normaliser, 1)
    before, after = (normaliser.inverse_sensors(b.x_BKC.double()) for b in (batch, changed))
    different = (changed.x_BKC != batch.x_BKC).any(1)
    assert (different.sum(1) <= 1).all()
    chosen = different[:, None] & batch.m_BKC
    torch.testing.assert_close(after[chosen], 60.0 * before[chosen], rtol=1e-3, atol=1e-3)


def test_clock_jitter_stays_between_neighbours_and_leaves_a_constant_alone(
    batch: WindowBatch, normaliser: Normaliser
) -> None:
    changed = corrupted(batch, "clock jitter", 0.5, normaliser, 1)
    lowest, highest = batch.x_BKC.amin(1, keepdim=True), batch.x_BKC.amax(1, keepdim=True)
    seen = changed.m_BKC & batch.m_BKC.all(1, keepdim=True)
    assert ((changed.x_BKC >= lowest - 1e-5) & (changed.x_BKC <= highest + 1e-5))[seen].all()
    constant = WindowBatch(torch.ones_like(batch.x_BKC), torch.ones_like(batch.m_BKC), *_rest(batch))
    assert corrupted(constant, "clock jitter", 1.0, normaliser, 1).x_BKC.allclose(torch.tensor(1.0))


def _rest(batch: WindowBatch) -> tuple[torch.Tensor, ...]:
    return tuple(getattr(batch, name) for name in WindowBatch.__dataclass_fields__)[2:]


def test_slower_logging_holds_block_means_of_present_rows_ending_at_now(batch: WindowBatch) -> None:
    changed = coarse(batch, 3)
    block = slice(CONTEXT - 3, CONTEXT)
    count = batch.m_BKC[:, block].sum(1)
    expected = torch.where(count > 0, batch.x_BKC[:, block].sum(1) / count.clamp_min(1), 0.0)
    for row in range(CONTEXT - 3, CONTEXT):
        torch.testing.assert_close(changed.x_BKC[:, row], expected)
    assert torch.equal(coarse(batch, 1).x_BKC, batch.x_BKC)
    assert torch.equal(coarse(batch, 1).m_BKC, batch.m_BKC)


def test_the_severities_are_those_of_every_published_table() -> None:
    """Tables of robustness compare with earlier ones only as long as these stay."""
    assert {kind: amounts for kind, (_, amounts) in CORRUPTIONS.items()} == {
        "missing points": (0.1, 0.3, 0.6), "missing blocks": (0.1, 0.3, 0.6), "missing channels": (0.15, 0.35, 0.6),
        "noise": (0.1, 0.3, 1.0), "spikes": (0.01, 0.03, 0.1), "drift": (0.5, 1.0, 2.0), "bias": (0.5, 1.0, 2.0),
        "stuck sensor": (0.25, 0.5, 1.0), "unit slip": (6.0, 60.0, 1000.0), "clock jitter": (0.25, 0.5, 1.0),
    }  # fmt: skip
    assert SPIKE == 10.0
