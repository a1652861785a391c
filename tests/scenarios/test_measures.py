import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import ConfigError, SchemaError
from crossfeed.scenarios.measures import (
    INTERVAL,
    LEVELS,
    Estimate,
    check_sensors,
    energies,
    highest_by_sensor,
    peaks,
    power_sensors,
    read_limits,
    sample_quantiles,
)
from crossfeed.schema import Channel, Schema, canonical
from tests.evaluation.small_machine import SCHEMA


def test_a_kilowatt_for_an_hour_is_a_thousand_watt_hours() -> None:
    sensors = np.zeros((5, 3600, 3))
    sensors[..., 1] = 1.0
    np.testing.assert_allclose(energies(sensors, SCHEMA, ["power"], 1.0), 1000.0)
    np.testing.assert_allclose(energies(sensors[:, :36], SCHEMA, ["power"], 0.5), 5.0)


def test_units_of_power_are_converted_and_power_fed_back_is_subtracted() -> None:
    watts = Schema(
        name="watts",
        sensors=(Channel(name="a", quantity="power", unit="W"), Channel(name="b", quantity="power", unit="kW")),
        commands=SCHEMA.commands,
    )
    rows = np.array([[3600.0, -1.0], [3600.0, 1.0]])
    assert energies(rows, watts, ["a", "b"], 1.0) == pytest.approx(2.0)
    assert energies(rows[:1], watts, ["a", "b"], 1.0) == pytest.approx(1.0 - 1000.0 / 3600.0)


@pytest.mark.parametrize(
    ("names", "counted"),
    [
        (("spindle_power", "machine_power", "z_power"), ("machine_power",)),
        (("spindle_mechanical_power", "spindle_power", "x_power"), ("spindle_power", "x_power")),
        (("spindle_mechanical_power",), ("spindle_mechanical_power",)),
        (("spindle_power", "spindle_2_power"), ("spindle_power", "spindle_2_power")),
    ],
)
def test_a_meter_of_the_whole_machine_was_added_to_the_drives_in_it(names, counted) -> None:
    sensors = tuple(Channel(name=name, quantity="power", unit="kW") for name in names)
    schema = Schema(name="metered", sensors=sensors, commands=SCHEMA.commands)
    assert power_sensors(schema, np.ones(len(names), dtype=bool)) == counted


def test_only_present_power_sensors_count() -> None:
    present = np.array([name != "z_power" for name in canonical().sensor_names])
    assert power_sensors(canonical(), present) == ("spindle_power",)
    assert power_sensors(canonical(), ~present) == ("z_power",)


@given(samples=st.integers(20, 60))
def test_the_share_of_further_draws_inside_is_what_is_claimed(samples: int) -> None:
    low, high = sample_quantiles(np.arange(1.0, samples + 1.0), (0.05, 0.95))
    # Of the n + 1 gaps between sorted draws, a further draw falls into each with equal chance.
    assert (high - low) / (samples + 1) == pytest.approx(0.9)


def test_limits_are_read_with_and_without_units() -> None:
    def highest(*texts: str) -> dict[str, float]:
        return highest_by_sensor(read_limits(texts, SCHEMA))

    assert highest("power<=5", "current < 2.5e1") == {"power": 5.0, "current": 25.0}
    assert highest("power=5000 W", "temperature<=122 degF") == pytest.approx({"power": 5.0, "temperature": 50.0})
    assert highest() == {}
    with pytest.raises(ConfigError, match="T1: power<=5 kW is for one tool"):
        highest("T1: power<=5")


@pytest.mark.parametrize(
    ("text", "kind"),
    [("power", ConfigError), ("power=high", ConfigError), ("speed=5", ConfigError), ("power=5 V", SchemaError)],
)
def test_a_bad_limit_is_refused(text: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        read_limits([text], SCHEMA)


def test_peaks_count_the_futures_that_pass_the_limit_at_any_row() -> None:
    paths = np.zeros((20, 6, 3))
    paths[np.arange(20), np.arange(20) % 6, 1] = np.arange(20.0)
    found = peaks(paths, SCHEMA, ["power", "current"], {"power": 14.5})
    assert found["power"].probability == pytest.approx(0.25)
    assert found["power"].mean == pytest.approx(9.5)
    assert (found["current"].limit, found["current"].probability) == (None, None)
    reached = peaks(paths, SCHEMA, ["power"], {"power": 15.0})["power"]
    assert reached.probability == pytest.approx(0.2), "to reach a limit is not to pass it"


def test_sensors_that_are_not_there_are_named() -> None:
    present = np.array([True, False, True])
    check_sensors(["current"], SCHEMA, present, "The channel")
    with pytest.raises(ConfigError, match="'power' is absent from the history"):
        check_sensors(["power"], SCHEMA, present, "The channel")
    with pytest.raises(ConfigError, match="'noise' is no sensor of the model"):
        check_sensors({"noise": 1.0}, SCHEMA, present, "The limited sensor")


def test_an_estimate_holds_its_interval() -> None:
    estimate = Estimate.of(np.arange(1.0, 40.0))
    assert (estimate.mean, estimate.low, estimate.high) == pytest.approx((20.0, 2.0, 38.0))


def test_a_forecast_is_told_by_its_middle_and_two_intervals() -> None:
    """What is drawn as the middle is the median, and the outermost levels hold nine in ten."""
    assert LEVELS == (0.05, 0.25, 0.5, 0.75, 0.95)
    assert LEVELS[-1] - LEVELS[0] == pytest.approx(INTERVAL)
