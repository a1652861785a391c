"""Few-shot: fraction 0 is zero-shot bit by bit, learning helps on a shifted machine, absent channels stay out of it."""

import numpy as np
import pytest
import torch

from crossfeed.errors import ForecastError
from crossfeed.evaluation.adaptation.fewshot import FewShotConfig, few_shot, support_and_query
from crossfeed.evaluation.adaptation.parameters import errors_in_advance, prepare, squared, update
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.model.distribution import Point
from crossfeed.training.optimiser import adamw
from crossfeed.windows.normalise import Normaliser
from tests.evaluation.adaptation.small_models import NetworkForecaster, tiny_world_model
from tests.evaluation.small_machine import SCHEMA, small_table, window_set


def shifted(normaliser: Normaliser, hidden: tuple[str, ...] = ()) -> EvaluationSet:
    table = small_table(runs=6, rows=120, machine="other", level=1.5, seed=9)
    return EvaluationSet(window_set(table, normaliser, hidden), SCHEMA, normaliser, normaliser)


CONFIG = FewShotConfig(fractions=(0.0, 0.05, 0.2), mode="all", steps=60, learning_rate=3e-3)


def test_twenty_percent_support_beats_zero_shot_on_the_common_query(
    trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    table = few_shot(trained, shifted(normaliser), CONFIG).result.fractions
    assert [row.fraction for row in table] == [0.0, 0.05, 0.2]
    assert table[2].metrics["rmse"] < 0.7 * table[0].metrics["rmse"]
    assert table[2].metrics["crps"] < 0.7 * table[0].metrics["crps"]
    assert table[2].rmse_ratio.high < 1.0
    assert len({row.metrics["count"] for row in table}) == 1, "one query set for all"


def test_fraction_zero_and_an_empty_support_are_zero_shot_bit_by_bit(
    trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    data = shifted(normaliser)
    found = few_shot(trained, data, CONFIG)
    rows, zero_shot = (
        found.result.fractions,
        score_windows(trained, data, support_and_query(data.windows, (0.2,)).query[0.2]),
    )
    np.testing.assert_array_equal(found.scores[0].sums, zero_shot.sums)
    assert rows[1].support_windows == rows[1].updates == rows[1].parameters_moved == rows[0].parameters_moved == 0
    np.testing.assert_array_equal(found.scores[1].sums, zero_shot.sums)
    remarks = [row.remark for row in rows]
    assert remarks == ["", "no complete window in the support: zero-shot", ""]


CHANGED = {"fractions", "mode", "steps", "learning_rate"}


def test_the_control_without_steps_changes_nothing(trained: NetworkForecaster, normaliser: Normaliser) -> None:
    scores = few_shot(trained, shifted(normaliser), CONFIG.model_copy(update={"steps": 0})).scores
    np.testing.assert_array_equal(scores[0].sums, scores[2].sums)


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(
    trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    data = shifted(normaliser)
    first, again, other = (
        few_shot(trained, data, CONFIG.model_copy(update={"seed": seed})).scores[2].sums for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_channel_absent_on_the_new_machine_is_not_regressed_to_zero(normaliser: Normaliser) -> None:
    windows = shifted(normaliser, hidden=("power",)).windows
    model = tiny_world_model(normaliser, network="jepa")
    prepared = prepare(model, "head")
    optimiser = adamw([(prepared.parameters, 0.0)], torch.tensor(1e-2))
    batch = windows.batch(torch.arange(32))
    for _ in range(3):
        update(prepared, batch, errors_in_advance(model, batch), optimiser, 1.0)
    before, after = model.model.head.mean, prepared.forecaster.module.head.mean
    absent = SCHEMA.sensor_names.index("power")
    assert torch.equal(before.weight[absent], after.weight[absent])
    assert before.bias[absent] == after.bias[absent]
    assert not torch.equal(before.weight[0], after.weight[0])


def test_the_variance_is_trained_too(trained: NetworkForecaster, normaliser: Normaliser) -> None:
    found = few_shot(trained, shifted(normaliser), CONFIG)
    before, after = trained.module.log_scale.weight, found.forecaster.module.log_scale.weight
    assert not torch.equal(before, after)
    coverage = [row.metrics["coverage90"] for row in found.result.fractions]
    assert abs(coverage[2] - 0.9) < abs(coverage[0] - 0.9)


@pytest.mark.parametrize("network", ["sensors", "jepa"])
def test_the_world_model_goes_through_the_same_door(normaliser: Normaliser, network: str) -> None:
    config = FewShotConfig(fractions=(0.0, 0.2), steps=10, learning_rate=3e-3)
    zero_shot, adapted = few_shot(tiny_world_model(normaliser, network=network), shifted(normaliser), config).scores
    assert adapted.metrics()["nll"] < zero_shot.metrics()["nll"]


def test_a_forecaster_without_density_is_refused(normaliser: Normaliser) -> None:
    class Blunt(NetworkForecaster):
        def predict(self, batch):  # type: ignore[no-untyped-def]
            return Point(super().predict(batch).mean)

    with pytest.raises(ForecastError, match="'network' claims no density"):
        few_shot(Blunt(), shifted(normaliser), CONFIG)


def test_the_defaults_are_those_of_the_paper() -> None:
    assert FewShotConfig().model_dump() == {
        "fractions": (0.0, 0.05, 0.1, 0.2), "mode": "predictor", "steps": 50, "learning_rate": 1e-4, "batch_size": 64,
        "rank": 4, "clip_norm": 1.0, "seed": 0, "loss": "likelihood", "query": "common",
    }  # fmt: skip
    ours = FewShotConfig.of("crossfeed").model_dump()
    assert ours == FewShotConfig.of("mended").model_dump() == FewShotConfig().model_dump()
    assert FewShotConfig.of("paper").model_dump() == ours | {"loss": "squared", "query": "each"}


def test_under_the_paper_the_squared_error_is_learned_and_the_spread_is_not(
    trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    config = FewShotConfig.of("paper").model_copy(update={**CONFIG.model_dump(include=CHANGED)})
    found = few_shot(trained, shifted(normaliser), config)
    zero_shot, _, largest = found.result.fractions
    before, after = trained.module.log_scale, found.forecaster.module.log_scale
    assert torch.equal(before.weight, after.weight)
    assert largest.rmse_ratio.estimate < 0.9
    assert zero_shot.rmse_ratio.estimate == 1.0
    assert zero_shot.query_windows > largest.query_windows


def test_each_fraction_is_compared_with_zero_shot_on_its_own_windows(
    trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    data = shifted(normaliser)
    each = few_shot(trained, data, CONFIG.model_copy(update={"query": "each"})).result.fractions
    alone = few_shot(trained, data, CONFIG.model_copy(update={"fractions": (0.2,)})).result.fractions
    assert each[2] == alone[1], "its windows do not depend on which other fractions are asked for"
    common = few_shot(trained, data, CONFIG).result.fractions
    assert len({row.query_windows for row in common}) == 1
    assert common[2] == each[2]
    assert common[0] != each[0]


def test_the_authors_regress_absent_channels_to_zero_and_we_only_as_they_did(normaliser: Normaliser) -> None:
    windows = shifted(normaliser, hidden=("power",)).windows
    model, absent = tiny_world_model(normaliser, network="jepa"), SCHEMA.sensor_names.index("power")
    prepared, batch = prepare(model, "head"), windows.batch(torch.arange(32))
    optimiser = adamw([(prepared.parameters, 0.0)], torch.tensor(1e-2))
    with torch.no_grad():
        before = prepared.forecaster.predict(batch)
    for _ in range(3):
        update(prepared, batch, errors_in_advance(model, batch), optimiser, 1.0, "squared")
    with torch.no_grad():
        after = prepared.forecaster.predict(batch)
    assert after.mean[..., absent].square().mean() < before.mean[..., absent].square().mean()
    assert float(squared(after, batch)) < float(squared(before, batch))
