"""Kept promises stay green, broken ones do not, and the test for drift keeps its own promise."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.distribution import Gaussian
from crossfeed.live.promises import TOLERATED, EProcess, Outline, PromisedForecast
from crossfeed.live.row import Row
from crossfeed.live.snapshot import Light, PlanUsed
from crossfeed.live.trust import Trust
from crossfeed.model.forecast import Forecast
from tests.live.conftest import Shop
from tests.model import toy


def test_the_evidence_for_drift_rarely_rises_where_there_is_none() -> None:
    draw = np.random.default_rng(0)
    crossed = 0
    for _ in range(400):
        process = EProcess()
        top = 0.0
        for missed in draw.random(300) < TOLERATED:
            process.see(bool(missed))
            top = max(top, process.wealth)
        crossed += top >= 20.0
    assert crossed <= 400 / 20


@given(share=st.floats(0.45, 0.9))
@settings(max_examples=20)
def test_the_evidence_for_drift_rises_where_there_is_some(share: float) -> None:
    process = EProcess()
    for missed in np.random.default_rng(1).random(400) < share:
        process.see(bool(missed))
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
        plan = PlanUsed("held", "held", dict.fromkeys(schema.command_names, (command,) * horizons[-1]))
        forecast = Forecast(horizons, schema.sensor_names, schema.sensor_names, said)
        trust.promise(PromisedForecast(rows[-1], plan, forecast, Outline.of(forecast.distribution)))
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
    plan = PlanUsed("held", "held", dict.fromkeys(shop.table.schema.command_names, (1000000.0,) * 20))
    assert "outside" in trust._beyond(plan)


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
    trust._model = SimpleNamespace(model=model)
    model.usual_doubt.fill_(0.004)
    assert trust._disagreement(None) == trust._disagreement(0.003) == ""
    assert "differ by 0.006, usually 0.004" in trust._disagreement(0.006)
    model.usual_doubt.fill_(0.0)
    assert trust._disagreement(0.006) == "", "nobody measured what is usual"
