"""Online adaptation: causal to the bit, better than the frozen model on a shifted machine, reset between machines."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from crossfeed.evaluation.adaptation.online import OnlineConfig, blocks, online
from crossfeed.evaluation.adaptation.parameters import Adaptable
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.logs.table import Table
from crossfeed.model.distribution import Distribution
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowSet
from tests.evaluation.adaptation.small_models import NetworkForecaster, tiny_world_model
from tests.evaluation.small_machine import CONTEXT, HORIZONS, SCHEMA, small_table, window_set

LONGEST = max(HORIZONS)
CONFIG = OnlineConfig(mode="all", every=4, learning_rate=3e-3)


def other_machine(normaliser: Normaliser, change: float = 0.0, after: int = 10**9) -> EvaluationSet:
    """A shifted machine; everything measured after row `after`, and every command after its plan, may be changed."""
    table = small_table(runs=3, rows=60, machine="other", level=1.5, seed=9)
    table.sensors[after + 1 :] += change
    table.commands[after + 1 + LONGEST :] += 100.0 * change
    return EvaluationSet(window_set(table, normaliser), SCHEMA, normaliser, normaliser)


def forecasts(forecaster: Adaptable, data: EvaluationSet) -> dict[int, np.ndarray]:
    """What online adaptation said, by the row at which it said it."""
    said: dict[int, np.ndarray] = {}
    rows = data.windows.last_W

    def keep(part: torch.Tensor, forecast: Distribution) -> None:
        both = torch.cat([forecast.mean, forecast.standard_deviation], 1).numpy()
        said.update(zip(rows[part].tolist(), both, strict=True))

    online(forecaster, data, CONFIG, keep)
    return said


@pytest.mark.parametrize(
    ("kind", "row"), [*(("network", row) for row in (40, 71, 100, 130, 150)), ("world model", 100)]
)
def test_no_forecast_at_or_before_row_t_depends_on_anything_observed_after_t(
    kind: str, row: int, trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    forecaster = trained if kind == "network" else tiny_world_model(normaliser)
    before = forecasts(forecaster, other_machine(normaliser))
    after = forecasts(forecaster, other_machine(normaliser, change=5.0, after=row))
    known = [at for at in before if at <= row]
    assert len(known) > 5
    for at in known:
        np.testing.assert_array_equal(before[at], after[at])
    assert any((before[at] != after[at]).any() for at in before if at > row)


def test_online_adaptation_beats_the_frozen_model_prequentially(
    trained: NetworkForecaster, normaliser: Normaliser
) -> None:
    result = online(trained, other_machine(normaliser), CONFIG)
    assert result.updates > 0
    assert result.online.metrics()["rmse"] < 0.8 * result.zero_shot.metrics()["rmse"]
    runs = [row["rmse"] for row in result.online.by("run").values()]
    assert runs[-1] < runs[0], "it goes on learning from run to run"


def test_the_frozen_side_is_plain_zero_shot(trained: NetworkForecaster, normaliser: Normaliser) -> None:
    data = other_machine(normaliser)
    result = online(trained, data, CONFIG.model_copy(update={"steps": 0}))
    reference = score_windows(trained, data)
    assert result.updates == 0
    np.testing.assert_allclose(
        result.zero_shot.sums, reference.sums, rtol=1e-4, atol=1e-5
    )  # other batches round otherwise
    np.testing.assert_array_equal(result.online.sums, result.zero_shot.sums)


def test_nothing_is_learned_from_before_its_last_target_is_observed(normaliser: Normaliser) -> None:
    windows = other_machine(normaliser).windows
    last = windows.last_W
    forecast: list[int] = []
    for part, observed in blocks(windows, 0, every=4):
        now = int(last[part[0]])
        assert all(int(last[index]) + LONGEST <= now for index in observed)
        missed = [index for index in forecast if index not in set(observed.tolist())]
        assert all(int(last[index]) + LONGEST > now for index in missed), "and nothing observed is left out"
        forecast += part.tolist()
    assert sorted(forecast) == list(range(len(windows)))


def test_every_machine_starts_from_the_source_model(trained: NetworkForecaster, normaliser: Normaliser) -> None:
    first = small_table(runs=2, machine="first", level=3.0, seed=4)
    second = small_table(runs=2, machine="second", level=1.5, seed=5)
    both = WindowSet.build([first, second], None, normaliser, CONTEXT, HORIZONS)
    alone = EvaluationSet(window_set(second, normaliser), SCHEMA, normaliser, normaliser)
    together = online(trained, EvaluationSet(both, SCHEMA, normaliser, normaliser), CONFIG)
    assert set(together.forecasters) == {"first", "second"}
    found, expected = together.online.by("run"), online(trained, alone, CONFIG).online.by("run")
    for run in ("second/run0", "second/run1"):
        assert found[run]["rmse"] == pytest.approx(expected[run]["rmse"], rel=1e-5)


def test_a_gap_between_sessions_does_not_confuse_the_clock(trained: NetworkForecaster, normaliser: Normaliser) -> None:
    table: Table = small_table(runs=3, machine="other", level=1.5, seed=9)
    table = replace(table, time=table.time + np.repeat([0.0, 1e6, 5.0], 60))
    data = EvaluationSet(window_set(table, normaliser), SCHEMA, normaliser, normaliser)
    result = online(trained, data, CONFIG)
    assert result.online.windows == len(data.windows)


def test_the_defaults_are_those_of_every_published_table() -> None:
    assert OnlineConfig().model_dump() == {
        "mode": "predictor", "every": 8, "steps": 2, "recent": 16, "replay": 16, "learning_rate": 1e-4, "rank": 4,
        "clip_norm": 1.0, "seed": 0,
    }  # fmt: skip
