"""The spread of an adapted model comes from errors made in advance, not from how well it remembers."""

import torch

from crossfeed.evaluation.adaptation.parameters import errors_in_advance, prepare, update
from crossfeed.model.distribution import Mixture
from crossfeed.training.optimiser import adamw
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet
from tests.evaluation.adaptation.small_models import NetworkForecaster
from tests.evaluation.small_machine import small_table, window_set


def other_machine(normaliser: Normaliser, hidden: tuple[str, ...] = ()) -> WindowSet:
    return window_set(small_table(runs=6, rows=120, machine="other", level=1.5, seed=9), normaliser, hidden)


def test_windows_learned_by_heart_do_not_narrow_the_intervals(
    trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    batch = other_machine(normaliser).batch(torch.arange(0, 24, 3))
    ahead = errors_in_advance(trained, batch)
    made_in_advance = float(ahead[batch.future_m_BHC].square().mean().sqrt())
    prepared = prepare(trained, "all")
    optimiser = adamw([(prepared.parameters, 0.0)], torch.tensor(5e-3))
    for _ in range(150):
        update(prepared, batch, ahead, optimiser, 1.0)
    with torch.no_grad():
        said = prepared.forecaster.predict(batch)
    remembered = float(errors_in_advance(prepared.forecaster, batch)[batch.future_m_BHC].square().mean().sqrt())
    spread = float(said.scale[batch.future_m_BHC].square().mean().sqrt())
    assert remembered < 0.3 * made_in_advance, "the windows are known by heart by now"
    assert 0.8 * made_in_advance < spread < 1.3 * made_in_advance


def test_errors_in_advance_are_zero_where_nothing_was_observed(
    trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    batch = other_machine(normaliser, hidden=("power",)).batch(torch.arange(8))
    ahead = errors_in_advance(trained, batch)
    assert not ahead[~batch.future_m_BHC].any()
    assert ahead[batch.future_m_BHC].abs().min() > 0.0
    assert not ahead.requires_grad


class MixtureForecaster(NetworkForecaster):
    """The same network, saying a narrow and a wide component around its mean."""

    def predict(self, batch: WindowBatch) -> Mixture:  # type: ignore[override]
        mean, log_scale = self.module(batch)
        mean_M, scale = torch.stack([mean, mean], -1), log_scale.clamp(-4.0, 4.0).exp()
        return Mixture(torch.zeros_like(mean_M), mean_M, torch.stack([0.5 * scale, scale], -1))


def test_a_mixture_adapts_and_its_spread_learns_from_errors_made_in_advance(normaliser: Normaliser) -> None:
    batch, forecaster = other_machine(normaliser).batch(torch.arange(0, 24, 3)), MixtureForecaster()
    ahead = errors_in_advance(forecaster, batch)
    made_in_advance = float(ahead[batch.future_m_BHC].square().mean().sqrt())
    prepared = prepare(forecaster, "all")
    optimiser = adamw([(prepared.parameters, 0.0)], torch.tensor(5e-3))
    for _ in range(150):
        update(prepared, batch, ahead, optimiser, 1.0)
    remembered = float(errors_in_advance(prepared.forecaster, batch)[batch.future_m_BHC].square().mean().sqrt())
    with torch.no_grad():
        spread = prepared.forecaster.predict(batch).standard_deviation[batch.future_m_BHC].square().mean().sqrt()
    assert remembered < 0.3 * made_in_advance
    assert 0.7 * made_in_advance < float(spread) < 1.4 * made_in_advance
