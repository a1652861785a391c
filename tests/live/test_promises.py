"""What was promised and what came, in figures that were worked out by hand."""

from collections import deque
from statistics import NormalDist

import numpy as np
import pytest
import torch

from crossfeed.distribution import Gaussian
from crossfeed.live.snapshot import LivePlannedCommands, Row
from crossfeed.live.trust import EProcess, ForecastSummary, PromisedForecast, PromiseRecord, Promises, spans_of
from crossfeed.model.forecast import Forecast
from crossfeed.schema import Channel, Schema

SCHEMA = Schema(
    name="one",
    sensors=(Channel(name="power", quantity="power", unit="kW"),),
    commands=(Channel(name="speed", quantity="rotational speed", unit="rpm"),),
)
HORIZONS = (1, 3)
BETS = np.array([0.25, 0.5, 1.0, 2.0, 4.0])


def test_a_miss_wins_what_was_bet_and_a_hit_loses_a_fifth_of_it() -> None:
    process = EProcess()
    assert process.wealth == 1.0
    process.observe(True)
    assert process.wealth == pytest.approx((1.0 + 0.8 * BETS).mean())
    process.observe(False)
    assert process.wealth == pytest.approx(((1.0 + 0.8 * BETS) * (1.0 - 0.2 * BETS)).mean())
    for _ in range(2000):
        process.observe(True)
    assert np.isfinite(process.wealth)


def test_a_record_speaks_of_the_last_two_hundred() -> None:
    record = PromiseRecord()
    record.inside += [True] * 100 + [False] * 50 + [True] * 150
    assert record.coverage == 0.75
    assert record.words == "75 % of the last 200 values lay inside 90 %"
    assert record.crps_ratio is None
    record.crps += [(9.0, 1.0)] * 50 + [(3.0, 2.0)] * 100 + [(1.0, 2.0)] * 100
    assert record.crps_ratio == pytest.approx(1.0)
    record.crps.clear()
    record.crps += [(1.0, 0.5), (2.0, 0.0)]
    assert record.crps_ratio == pytest.approx(6.0)


def said(mean: float, scale: float) -> Gaussian:
    shape = (len(HORIZONS), 1)
    return Gaussian(torch.full(shape, mean).double(), torch.full(shape, scale).double())


def crps(z: float) -> float:
    """Of a standard normal forecast."""
    normal = NormalDist()
    return z * (2.0 * normal.cdf(z) - 1.0) + 2.0 * normal.pdf(z) - np.pi**-0.5


def test_a_forecast_expects_of_itself_the_mean_over_its_ten_ranks() -> None:
    summary = ForecastSummary.of(said(3.0, 2.0))
    edge = NormalDist().inv_cdf(0.95)
    own = np.mean([crps(NormalDist().inv_cdf(0.05 + rank / 10.0)) for rank in range(10)])
    assert summary.median == pytest.approx(3.0)
    assert summary.low == pytest.approx(3.0 - 2.0 * edge)
    assert summary.high == pytest.approx(3.0 + 2.0 * edge)
    assert summary.own_crps == pytest.approx(2.0 * own)


def judged(values: dict[int, float], speeds: dict[int, float], period: float = 1.0, times: int = 1) -> PromiseRecord:
    """What is said of a promise from row 0, a standard normal one under a plan of 100 rpm, by the rows that came."""
    promises = Promises(SCHEMA, HORIZONS, {"speed": 50.0})
    rows = [
        Row(period * number, {"power": values[number], "speed": speeds.get(number, 100.0)}, number == 0)
        for number in sorted(values)
    ]
    forecast = Forecast(HORIZONS, SCHEMA.sensor_names, SCHEMA.sensor_names, said(0.0, 1.0))
    plan = LivePlannedCommands("held", "held", {"speed": (100.0, 100.0, 100.0)})
    promises.judge(rows[:1], period)
    promises.add(PromisedForecast(rows[0], plan, forecast, ForecastSummary.of(forecast.distribution)))
    for count in range(2, len(rows) + 1):
        for _ in range(times):
            promises.judge(rows[:count], period)
    return promises.records["power"]


@pytest.mark.parametrize("period", [1.0, 0.25, 4.0])
def test_rows_are_compared_with_the_horizon_at_which_they_came(period: float) -> None:
    record = judged({0: 9.0, 1: 1.6, 2: 9.0, 3: -1.7, 4: 9.0}, {}, period)
    assert record.inside == deque([True, False])
    found, promised = zip(*record.crps)
    assert found == pytest.approx((crps(1.6), crps(1.7)))
    assert promised == pytest.approx(
        [np.mean([crps(NormalDist().inv_cdf(0.05 + rank / 10.0)) for rank in range(10)])] * 2
    )


def test_only_the_next_row_is_evidence_and_every_row_counts_once() -> None:
    record = judged({0: 9.0, 1: 1.6, 2: 9.0, 3: -1.7}, {}, times=3)
    assert len(record.inside) == 2
    assert record.evidence.wealth == pytest.approx((1.0 - 0.2 * BETS).mean())
    missed = judged({0: 9.0, 1: 1.7, 2: 9.0, 3: 0.0}, {})
    assert missed.evidence.wealth == pytest.approx((1.0 + 0.8 * BETS).mean())


def test_a_plan_is_followed_up_to_a_part_of_the_range_and_in_every_row() -> None:
    rows = {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0}
    for number, counted in ((1, 0), (2, 1), (3, 1)):
        assert len(judged(rows, {number: 149.0}).inside) == 2
        assert len(judged(rows, {number: 151.0}).inside) == counted
    assert len(judged({0: 0.0, 1: 0.0, 3: 0.0}, {}).inside) == 1, "nobody knows what row 2 was"


def test_a_command_may_be_off_by_a_twentieth_of_its_range() -> None:
    spans = spans_of(SCHEMA, {"speed": (-1000.0, 3000.0)})
    assert spans == pytest.approx({"speed": 200.0})
    assert spans_of(SCHEMA, {}) == pytest.approx({"speed": 1e-6})
