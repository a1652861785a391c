"""Kept promises stay green, broken ones do not, and the test for drift keeps its own promise."""

import math
from collections import deque
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.live.snapshot import Light, LivePlannedCommands, Row
from crossfeed.live.trust import (
    TOLERATED,
    EProcess,
    ForecastSummary,
    PromisedForecast,
    PromiseRecord,
    Promises,
    Trust,
    spans_of,
)
from crossfeed.model.distribution import Gaussian
from crossfeed.model.forecast import Forecast
from crossfeed.schema import Channel, Schema
from tests.live.conftest import Shop
from tests.model import toy

SCHEMA = Schema(
    name="one",
    sensors=(Channel(name="power", quantity="power", unit="kW"),),
    commands=(Channel(name="speed", quantity="rotational speed", unit="rpm"),),
)
HORIZONS = (1, 3)
BETS = np.array([0.25, 0.5, 1.0, 2.0, 4.0])


def test_the_evidence_for_drift_rarely_rises_where_there_is_none() -> None:
    draw = np.random.default_rng(0)
    crossed = 0
    for _ in range(400):
        process = EProcess()
        top = 0.0
        for missed in draw.random(300) < TOLERATED:
            process.observe(bool(missed))
            top = max(top, process.wealth)
        crossed += top >= 20.0
    assert crossed <= 400 / 20


@given(share=st.floats(0.45, 0.9))
@settings(max_examples=20)
def test_the_evidence_for_drift_rises_where_there_is_some(share: float) -> None:
    process = EProcess()
    for missed in np.random.default_rng(1).random(400) < share:
        process.observe(bool(missed))
    assert process.wealth > 100.0


def _watch(shop: Shop, error: float, held: bool = True) -> Trust:
    """Sixty rows of noise around zero in every sensor, forecast as a Gaussian that is off by so much."""
    opened = shop.opened
    schema, trust = shop.table.schema, Trust(opened)
    draw = np.random.default_rng(0)
    rows: list[Row] = []
    horizons = tuple(opened.model.horizons)
    location = opened.model.normaliser.sensor_location
    scale = opened.model.normaliser.sensor_scale
    shape = (len(horizons), len(schema.sensors))
    for number in range(120):
        noise = location + scale * draw.normal(size=len(schema.sensors))
        command = float(number) * 100.0 if not held else 0.0
        values: dict[str, float | None] = dict(zip(schema.sensor_names, noise.tolist()))
        values |= dict.fromkeys(schema.command_names, command)
        rows.append(Row(1000.0 + number, values, number == 0))
        trust.observe(rows)
        mean = torch.from_numpy(np.broadcast_to(location + error * scale, shape).copy())
        said = Gaussian(mean, torch.from_numpy(np.broadcast_to(scale, shape).copy()))
        plan = LivePlannedCommands("held", "held", dict.fromkeys(schema.command_names, (command,) * horizons[-1]))
        forecast = Forecast(horizons, schema.sensor_names, schema.sensor_names, said)
        trust.promise(PromisedForecast(rows[-1], plan, forecast, ForecastSummary.of(forecast.distribution)))
    return trust


def test_a_forecast_that_keeps_its_promise_is_green(shop: Shop) -> None:
    trust = _watch(shop, 0.0)
    lights = trust.lights(set(shop.table.schema.sensor_names), 0.5, "", 0)
    assert {light.colour for light in lights.values()} == {"green"}, lights
    record = next(iter(trust.promises.records.values()))
    assert record.crps_ratio == pytest.approx(1.0, abs=0.25)
    assert trust.verdict(lights, "").startswith("The forecast may be believed")


def test_a_machine_that_does_something_else_is_red(shop: Shop) -> None:
    trust = _watch(shop, 3.0)
    lights = trust.lights(set(shop.table.schema.sensor_names), 0.5, "", 0)
    assert {light.colour for light in lights.values()} == {"red"}
    assert "no longer does what is forecast" in trust.verdict(lights, "")


def test_a_forecast_under_a_plan_that_was_not_followed_is_not_judged(shop: Shop) -> None:
    trust = _watch(shop, 3.0, held=False)
    assert not any(record.inside for record in trust.promises.records.values())


@pytest.mark.parametrize(
    ("age", "problem", "missing", "colour", "words"),
    [
        (None, "", 0, "red", "nothing has arrived"),
        (60.0, "", 0, "red", "60 s old"),
        (0.5, "wrong units", 0, "red", "wrong units"),
        (0.5, "", 7, "amber", "7 more rows"),
        (2.0, "", 0, "amber", "2.0 s old"),
    ],
)
def test_what_is_stale_or_missing_is_said(
    shop: Shop, age: float | None, problem: str, missing: int, colour: str, words: str
) -> None:
    lights = _watch(shop, 0.0).lights({shop.table.schema.sensor_names[0]}, age, problem, missing)
    (light,) = lights.values()
    assert light.colour == colour
    assert words in light.sentence


def test_commands_beyond_training_need_care(shop: Shop) -> None:
    trust = _watch(shop, 0.0)
    plan = LivePlannedCommands("held", "held", dict.fromkeys(shop.table.schema.command_names, (1000000.0,) * 20))
    assert "outside" in trust._outside_training(plan)


def test_six_sensors_were_this_sensor(shop: Shop) -> None:
    never = Light("red", "the model never saw this sensor in training")
    lights = {"power": never, "torque": never, "current": Light("green", "in time")}
    told = Trust(shop.opened).verdict(lights, "")
    assert (
        told == "2 of 3 sensors cannot be believed now, power among them: the model never saw this sensor in training."
    )


def test_the_sentence_for_the_whole_counts_what_cannot_be_believed(shop: Shop) -> None:
    trust = Trust(shop.opened)
    green, amber, red = (Light(colour, f"is {colour}") for colour in ("green", "amber", "red"))
    assert trust.verdict({}, "") == "Nothing is known about the machine yet."
    assert trust.verdict({"a": green}, "remark") == "The forecast may be believed; remark."
    assert trust.verdict({"a": red, "b": red}, "") == "Nothing can be believed now: is red."
    assert trust.verdict({"a": red, "b": green}, "") == "1 of 2 sensors cannot be believed now, a: is red."
    assert trust.verdict({"a": amber, "b": green}, "") == "1 of 2 sensors needs care now, a: is amber."
    assert trust.verdict({"a": amber, "b": amber}, "x") == "2 of 2 sensors need care now, a among them: is amber; x."


def test_members_that_disagree_a_little_are_compared_with_what_is_usual(shop: Shop) -> None:
    trust, model = Trust(shop.opened), toy.sensor_model()
    trust._model = model
    model.disagreement_threshold.fill_(0.004)
    assert trust._disagreement(None) == trust._disagreement(0.003) == ""
    assert "differ by 0.006, usually 0.004" in trust._disagreement(0.006)
    model.disagreement_threshold.fill_(0.0)
    assert trust._disagreement(0.006) == "", "nobody measured what is usual"


def _judged(shop: Shop, inside: int, missed: int, ratio: float = 1.0, wealth: float = 0.0) -> Light:
    """The light of a sensor whose promises were kept and broken so often, one of two sensors."""
    trust, names = Trust(shop.opened), shop.table.schema.sensor_names
    record = trust.promises.records[names[0]]
    record.inside += [True] * inside + [False] * missed
    record.crps += [(ratio, 1.0)]
    record.evidence.logs = [math.log(max(wealth, 1e-9))] * len(record.evidence.logs)
    return trust.lights(set(names[:2]), 0.5, "", 0)[names[0]]


@pytest.mark.parametrize(
    ("told", "colour", "words"),
    [
        ({"inside": 29, "missed": 0}, "green", "29 forecasts checked so far"),
        ({"inside": 30, "missed": 0}, "green", "100 % of the last 30 values"),
        ({"inside": 0, "missed": 29, "wealth": 1e9}, "green", "29 forecasts"),
        ({"inside": 80, "missed": 20}, "green", "80 %"),
        ({"inside": 79, "missed": 21}, "amber", "the intervals are too narrow: 79 %"),
        ({"inside": 79, "missed": 21, "wealth": 39.0}, "amber", "too narrow"),
        ({"inside": 79, "missed": 21, "wealth": 41.0}, "red", "no longer does what is forecast"),
        ({"inside": 80, "missed": 20, "wealth": 41.0}, "amber", "wrong too often since the start"),
        ({"inside": 90, "missed": 10, "ratio": 1.45}, "green", "90 %"),
        ({"inside": 90, "missed": 10, "ratio": 1.55}, "amber", "errors are 1.6 times as large"),
    ],
)
def test_promises_are_judged_by_how_many_were_kept_and_how_surely(
    shop: Shop, told: dict[str, float], colour: str, words: str
) -> None:
    light = _judged(shop, **told)  # type: ignore[arg-type]
    assert (light.colour, words in light.sentence) == (colour, True), light


@pytest.mark.parametrize(("age", "colour"), [(1.74, "green"), (1.76, "amber"), (2.99, "amber"), (3.01, "red")])
def test_a_row_is_late_and_then_too_old(shop: Shop, age: float, colour: str) -> None:
    name = shop.table.schema.sensor_names[0]
    assert Trust(shop.opened).lights({name}, age, "", 0)[name].colour == colour


@pytest.mark.parametrize(("away", "colour"), [(7.9, "green"), (-7.9, "green"), (8.1, "amber"), (-8.1, "amber")])
def test_a_value_that_is_far_from_all_that_was_learned_needs_care(shop: Shop, away: float, colour: str) -> None:
    trust, schema, normaliser = Trust(shop.opened), shop.table.schema, shop.opened.model.normaliser
    values: dict[str, float | None] = dict.fromkeys(schema.command_names, 0.0)
    values |= dict(zip(schema.sensor_names, normaliser.inverse_sensors(np.array([away, 0.0, 0.0])).tolist()))
    trust.observe([Row(0.0, values, True)])
    colours = [light.colour for light in trust.lights(set(schema.sensor_names), 0.5, "", 0).values()]
    assert colours == [colour, "green", "green"]


def test_a_sensor_is_silent_for_as_long_as_it_told_nothing(shop: Shop) -> None:
    trust, schema = Trust(shop.opened), shop.table.schema
    names, location = schema.sensor_names, shop.opened.model.normaliser.sensor_location
    known: dict[str, float | None] = dict.fromkeys(schema.command_names, 0.0) | dict(zip(names, location.tolist()))
    rows = [Row(float(number), dict(known), number == 0) for number in range(6)]
    for row in rows[4:]:
        row.values[names[0]] = None
    for row in rows:
        row.values[names[1]] = None
    trust.observe(rows)
    said = [light.sentence for light in trust.lights(set(names), 0.5, "", 0).values()]
    assert said == ["no value for 2 s", "no value for 6 s", "in time; 0 forecasts checked so far"]


@pytest.mark.parametrize(("speed", "outside"), [(-2.0, False), (-4.0, True), (3002.0, False), (3004.0, True)])
def test_a_command_is_outside_when_it_is_beyond_a_thousandth_of_its_range(
    shop: Shop, speed: float, outside: bool
) -> None:
    plan = LivePlannedCommands("held", "held", {"spindle_speed": (10.0, speed), "feed_x": (0.0, 800.0)})
    assert bool(Trust(shop.opened)._outside_training(plan)) == outside


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
