"""The one fitting loop: it learns, it repeats itself, it stops, and it diverges loudly."""

import pytest
import torch

from crossfeed.errors import ConfigError, ForecastError, TrainingError
from crossfeed.evaluation.baselines.budget import Budget, Size, named_budget
from crossfeed.evaluation.baselines.network import Features, Network, NetworkInputs, Shape, estimate, forecast_loss
from crossfeed.evaluation.baselines.networks import RECIPES, network_forecaster
from crossfeed.evaluation.baselines.neural import NeuralForecaster, Stage, fit_stage, forecast_score
from crossfeed.evaluation.baselines.regression import _PENALTIES, RidgeForecaster, _ridge
from crossfeed.evaluation.baselines.small_networks import mlp
from crossfeed.evaluation.forecaster import Learner, batches
from crossfeed.model.distribution import Distribution, Gaussian, Point
from crossfeed.training.health import persistence
from crossfeed.windows.windows import WindowBatch, WindowSet

LEARNING = Budget(epochs=4, pretext_epochs=1, steps=16, batch_size=16, learning_rate=1e-2, validation_windows=60)


def rmse(learner: Learner, windows: WindowSet) -> float:
    squared = count = 0.0
    with torch.no_grad():
        for batch in batches(windows, torch.arange(len(windows))):
            error = (learner.predict(batch).mean - batch.future_x_BHC) * batch.future_m_BHC
            squared, count = squared + float(error.square().sum()), count + float(batch.future_m_BHC.sum())
    return float((squared / count) ** 0.5)


def persistence_rmse(windows: WindowSet) -> float:
    batch = windows.batch(torch.arange(len(windows)))
    error = persistence(batch.x_BKC, batch.m_BKC, windows.horizons) - batch.future_x_BHC
    return float(error.square().mean().sqrt())


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_network_learns_the_toy_better_than_persistence(name: str, parts: dict[str, WindowSet]) -> None:
    forecaster = network_forecaster(name, frozenset(), LEARNING, "tiny")
    forecaster.fit(parts["train"], parts["validation"], seed=0)
    assert rmse(forecaster, parts["test"]) < 0.95 * persistence_rmse(parts["test"])


def test_ridge_learns_the_toy_almost_completely_and_listens_to_commands(parts: dict[str, WindowSet]) -> None:
    seeing, blind = RidgeForecaster(NetworkInputs()), RidgeForecaster(NetworkInputs(plan=False))
    for forecaster in (seeing, blind):
        forecaster.fit(parts["train"], parts["validation"], seed=0)
    assert rmse(seeing, parts["test"]) < 0.3 * persistence_rmse(parts["test"])
    assert rmse(seeing, parts["test"]) < 0.5 * rmse(blind, parts["test"])


def test_ridge_solves_the_normal_equations_where_targets_are_missing(gappy: WindowSet) -> None:
    forecaster = RidgeForecaster(NetworkInputs(plan=False))
    forecaster.fit(gappy, gappy, seed=0)
    batch = gappy.batch(torch.arange(len(gappy)))
    forecast = forecaster.predict(batch).mean
    assert forecast.isfinite().all()
    # The channel that is absent throughout teaches nothing and is forecast at its source mean.
    assert torch.equal(forecast[..., 2], torch.zeros_like(forecast[..., 2]))
    present = batch.future_m_BHC[:, 0, 0]
    predictors = forecaster._predictors(batch)[present]
    residual = (batch.future_x_BHC - forecast)[present][:, 0, 0].double()
    weight = forecaster._weight_PO[:, 0]
    centred = predictors - predictors.mean(0)
    unit = torch.linalg.eigvalsh(centred.T @ centred).mean()
    gradient = centred.T @ residual - forecaster.penalty * unit * weight
    assert gradient.abs().max() < 1e-3 * (centred.abs().T @ residual.abs()).max()
    assert abs(float(residual.mean())) < 1e-5


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(
    parts: dict[str, WindowSet], tiny_budget: Budget
) -> None:
    batch = parts["test"].batch(torch.arange(8))

    def forecast(seed: int) -> Gaussian:
        torch.manual_seed(torch.randint(1000, ()).item())  # whatever the caller did before must not matter
        forecaster = network_forecaster("simmtm", frozenset(), tiny_budget, "tiny")
        forecaster.fit(parts["train"], parts["validation"], seed)
        return forecaster.predict(batch)

    first, again, other = forecast(1), forecast(1), forecast(2)
    assert torch.equal(first.mean, again.mean)
    assert torch.equal(first.scale, again.scale)
    assert not torch.equal(first.mean, other.mean)


def test_point_networks_get_the_larger_spread_of_their_train_and_validation_errors(
    parts: dict[str, WindowSet], tiny_budget: Budget
) -> None:
    forecaster = network_forecaster("itransformer", frozenset(), tiny_budget, "tiny")
    forecaster.fit(parts["train"], parts["validation"], seed=0)
    spreads = []
    for part in ("train", "validation"):
        batch = parts[part].batch(torch.arange(len(parts[part])))
        with torch.no_grad():
            forecast = forecaster.predict(batch)
        spreads.append((forecast.mean - batch.future_x_BHC).square().mean(0).sqrt())
    assert torch.allclose(forecast.scale[0], torch.maximum(*spreads), rtol=1e-4)
    assert torch.equal(forecast.scale[0], forecast.scale[-1])


def test_the_best_epoch_is_kept_and_patience_ends_training(parts: dict[str, WindowSet], shape: Shape) -> None:
    torch.manual_seed(0)
    network = mlp(Features(shape, NetworkInputs()), 8)
    scores = iter([3.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    states = []

    def score(batch: WindowBatch, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ARG001
        states.append(network.get_submodule("encoder.1").weight.detach().clone())
        return torch.tensor(next(scores) ** 2), torch.tensor(1.0)

    budget = Budget(epochs=6, pretext_epochs=0, steps=1, batch_size=16, patience=2, validation_windows=8)
    stage = Stage("forecast", 6, network.objective, score)
    report = fit_stage(network, stage, parts["train"], parts["validation"], budget, 1e-2, 0, "toy")
    assert (report.epochs, report.best_epoch, report.steps, report.score) == (4, 1, 4, 1.0)
    assert torch.equal(network.get_submodule("encoder.1").weight, states[1])
    assert not torch.equal(states[1], states[3])


class Exploding(Network):
    """Its loss is a number once and never again."""

    def __init__(self, inner: Network) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, batch: WindowBatch) -> Distribution:
        self.calls += 1
        said: Distribution = self.inner(batch)
        return said if self.calls < 3 else said.with_mean(said.mean * torch.nan)


def test_a_loss_that_is_no_number_is_called_diverged_with_its_epoch(
    parts: dict[str, WindowSet], tiny_budget: Budget
) -> None:
    forecaster = NeuralForecaster(
        "exploding", lambda shape: Exploding(mlp(Features(shape, NetworkInputs()), 8)), tiny_budget, 1e-3
    )
    with pytest.raises(TrainingError, match="exploding diverged: after epoch 1"):
        forecaster.fit(parts["train"], parts["validation"], seed=0)


def test_an_unfitted_forecaster_says_so(parts: dict[str, WindowSet], tiny_budget: Budget) -> None:
    for forecaster in (network_forecaster("mlp", frozenset(), tiny_budget, "tiny"), RidgeForecaster(NetworkInputs())):
        with pytest.raises(ForecastError, match="before it was fitted"):
            forecaster.predict(parts["test"].batch(torch.arange(2)))


@pytest.mark.parametrize("size", ["tiny", "compact", "base"])
def test_all_networks_of_a_comparison_train_at_the_same_rate(size: Size, tiny_budget: Budget) -> None:
    rates = {network_forecaster(name, frozenset(), tiny_budget, size)._rate for name in RECIPES}
    assert len(rates) == 1


def test_absent_targets_weigh_nothing(gappy: WindowSet) -> None:
    batch = gappy.batch(torch.arange(20))
    mean_BHC = torch.where(batch.future_m_BHC, batch.future_x_BHC + 0.5, 1e3)
    score, count = forecast_score(lambda _: Point(mean_BHC))(batch, torch.Generator())
    assert float(score / count) == pytest.approx(0.25, rel=1e-5)
    assert float(forecast_loss(Point(mean_BHC), batch)) == pytest.approx(0.25, rel=1e-5)


def test_the_log_variance_stays_in_its_range_and_keeps_a_gradient() -> None:
    raw = torch.tensor([-40.0, -9.0, 0.0, 4.0, 40.0], dtype=torch.float64, requires_grad=True)
    bound = 2.0 * estimate(torch.zeros_like(raw), raw).standard_deviation.log()
    assert bound.min() >= -9.2
    assert bound.max() <= 4.7
    assert float(bound[2].detach()) == pytest.approx(0.0, abs=0.02)
    bound.sum().backward()
    assert raw.grad is not None
    assert (raw.grad > 0).all()


def test_budgets_have_names_and_leave_epochs_for_forecasting() -> None:
    assert named_budget("paper").patience == 15
    with pytest.raises(ConfigError, match="no budget 'huge'"):
        named_budget("huge")
    with pytest.raises(ValueError, match="leave none of the 3 epochs"):
        Budget(epochs=3, pretext_epochs=3)


def test_ridge_solves_the_penalised_equations_for_every_penalty() -> None:
    draw = torch.Generator().manual_seed(0)
    x_NP = 3.0 + torch.randn(50, 4, generator=draw, dtype=torch.float64)
    y_NO = torch.randn(50, 2, generator=draw, dtype=torch.float64)
    weight_APO, offset_AO = _ridge(x_NP, y_NO)
    centred = x_NP - x_NP.mean(0)
    square = centred.T @ centred
    for penalty, weight, offset in zip(_PENALTIES, weight_APO, offset_AO, strict=True):
        penalised = square + penalty * square.trace() / 4 * torch.eye(4, dtype=torch.float64)
        torch.testing.assert_close(weight, torch.linalg.solve(penalised, centred.T @ (y_NO - y_NO.mean(0))))
        torch.testing.assert_close(offset, y_NO.mean(0) - x_NP.mean(0) @ weight)
