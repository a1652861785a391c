"""The task in physical units, and every way to ask for something impossible."""

import numpy as np
import pytest

from crossfeed.control.task import (
    check_limits,
    deadline_met,
    highest_by_row,
    knob_text,
    read_task,
)
from crossfeed.errors import ConfigError
from crossfeed.scenarios.measures import read_limit, read_limits
from crossfeed.schema import canonical

YAML = """
limits: [spindle_torque <= 40, spindle_power <= 8000 W]
tools: {SCHAFT_D4: [spindle_torque <= 900 N cm]}
objective: {price: 20 s/kWh, base_load: 1400 W}
feed: {min: 50 %, max: 1.2}
slew: 10 %/s
"""


def test_units_are_derived_not_typed(tmp_path):
    file = tmp_path / "limits.yaml"
    file.write_text(YAML)
    task = read_task(file)
    found = {(limit.tool, limit.sensor): limit.highest for limit in task.limits_of(canonical())}
    assert found == pytest.approx(
        {("", "spindle_torque"): 40.0, ("", "spindle_power"): 8.0, ("SCHAFT_D4", "spindle_torque"): 9.0}
    )
    assert (task.feed.min, task.feed.max, task.slew) == pytest.approx((0.5, 1.2, 0.1))
    assert task.objective.base_load == pytest.approx(1.4)


def test_the_command_line_adds_limits_and_changes_single_values(tmp_path):
    file = tmp_path / "limits.yaml"
    file.write_text(YAML)
    task = read_task(
        file, {"limits": ["x_torque<=5"], "objective": {"price": "5 s/kWh"}, "feed": knob_text("60..110", "feed")}
    )
    assert len(task.limits) == 3
    assert task.objective.price == 5.0
    assert task.objective.base_load == pytest.approx(1.4)
    assert (task.feed.min, task.feed.max) == pytest.approx((0.6, 1.1))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"feed": {"min": 0.0, "max": 1.2}}, "override"),
        ({"feed": {"min": 50, "max": 120}}, "write 80 %"),
        ({"feed": {"min": 1.0, "max": 1.0}}, "nothing to plan"),
        ({"objective": {"within": "200 s"}}, "belong together"),
        ({"objective": {"price": "3 kg"}}, "no number in s/kWh"),
        ({"slew": "0 %/s"}, "slew"),
        ({"wishes": 3}, "wishes"),
    ],
)
def test_impossible_tasks_are_explained(content, word):
    with pytest.raises(ConfigError, match=word):
        read_task(None, content)


@pytest.mark.parametrize("text", ["spindle_torque", "spindle_torque>=4", "<=4", "spindle_torque<=heavy"])
def test_a_limit_that_cannot_be_read(text):
    with pytest.raises(ConfigError, match="cannot be read"):
        read_limit(text, canonical())


def test_a_limit_on_an_unknown_sensor_and_two_that_contradict():
    with pytest.raises(ConfigError, match="no sensor of the model"):
        read_limit("cutting_torque<=4", canonical())
    with pytest.raises(ConfigError, match="contradict"):
        read_limits(["spindle_torque<=4", "spindle_torque<=5"], canonical())


def test_limits_are_refused_where_the_machine_cannot_keep_or_show_them():
    sensors = np.full((40, 17), 3.0)
    sensors[:, 10] = np.nan
    check_limits([read_limit("spindle_torque<=4", canonical())], canonical(), sensors, ["T1"])
    with pytest.raises(ConfigError, match="impossible"):
        check_limits([read_limit("spindle_torque<=2", canonical())], canonical(), sensors, ["T1"])
    with pytest.raises(ConfigError, match="absent from the history"):
        check_limits([read_limit("spindle_motor_temp<=90", canonical())], canonical(), sensors, ["T1"])
    with pytest.raises(ConfigError, match="does not use"):
        check_limits([read_limit("T9: spindle_torque<=4", canonical())], canonical(), sensors, ["T1"])


def test_the_tighter_limit_holds_for_its_tool():
    limits = read_limits(["spindle_torque<=40", "T2: spindle_torque<=9"], canonical())
    assert highest_by_row(limits, ["T1", "T2"])["spindle_torque"].tolist() == [40.0, 9.0]


def test_a_deadline_is_met_or_not():
    task = read_task(None, {"objective": {"minimise": "energy", "within": "5 min"}})
    assert deadline_met(task, 300.0)
    assert not deadline_met(task, 301.0)


def test_a_second_and_a_kilowatt_hour_have_their_prices():
    cost = read_task(None, {"objective": {"price": 20.0}})
    assert (cost.time_price, cost.energy_price) == (1.0, 20.0)
    energy = read_task(None, {"objective": {"minimise": "energy", "within": "5 min"}})
    assert (energy.time_price, energy.energy_price) == (0.0, 3600.0)


@pytest.mark.parametrize(
    "content", [{"risk": 0.0}, {"risk": "51 %"}, {"confidence": 0.49}, {"confidence": 1.0}, {"feed": {"max": 2.01}}]
)
def test_chances_and_knobs_have_their_ends(content):
    with pytest.raises(ConfigError):
        read_task(None, content)


def test_chances_and_knobs_reach_their_ends():
    task = read_task(None, {"risk": "50 %", "confidence": 0.5, "feed": {"max": 2.0}, "spindle": {"min": "1 %"}})
    assert (task.risk, task.confidence, task.feed.max, task.spindle.min) == (0.5, 0.5, 2.0, 0.01)


@pytest.mark.parametrize("text", ["80%", "80 %", "0.8", " 0.8 ", "80 percent", 0.8])
def test_a_share_may_be_written_with_or_without_a_per_cent_sign(text):
    assert read_task(None, {"feed": {"min": text, "max": 1.2}}).feed.min == pytest.approx(0.8)


def test_an_hour_of_sixty_euros_at_a_quarter_for_a_kilowatt_hour_prices_it_at_fifteen_seconds():
    """0.25 EUR/kWh divided by 60 EUR/h is a quarter of a minute for a kilowatt hour."""
    objective = read_task(None, {}).objective
    assert (objective.price, objective.base_load, objective.within) == (0.25 / (60.0 / 3600.0), 0.0, None)
