"""What a column is by what it holds: the values at which one unit, one reading or one channel becomes another."""

import numpy as np
import pytest

from crossfeed.logs.proposal import ProposedChannel, find_columns, other_channels, signals_of_columns

WAVE = np.linspace(-1.0, 1.0, 201)  # the 99 % quantile of its height is 0.99


def column(name: str, reach: float) -> ProposedChannel:
    """The one column of a log whose values reach so far, but for two in 201."""
    values = reach / 0.99 * WAVE
    (found,) = find_columns(signals_of_columns({name: values}))
    return found


@pytest.mark.parametrize(
    ("name", "reach", "unit", "sure"),
    [
        ("Leistung Spindel", 149.0, "kW", False),
        ("Leistung Spindel", 151.0, "W", False),
        ("Fx_cmd", 0.01, "mm/s", False),
        ("Fx_cmd", 699.0, "mm/s", False),
        ("Fx_cmd", 701.0, "mm/min", False),
        ("S1_CommandVelocity", 89.0, "revolution/s", False),
        ("S1_CommandVelocity", 91.0, "rpm", False),
        ("S1_CommandVelocity", 44_900.0, "rpm", False),
        ("S1_CommandVelocity", 45_100.0, "deg/s", False),
        ("Motortemperatur Z", 119.0, "degC", True),
        ("Motortemperatur Z", 121.0, "degC", False),
        ("Motortemperatur Z", 249.0, "degC", False),
        ("Motortemperatur Z", 251.0, "kelvin", False),
        ("Drehmoment Spindel", 1e6, "N m", False),
        ("Drehmoment Spindel [Nm]", 1e6, "N m", True),
    ],
)
def test_a_unit_that_nobody_states_is_told_by_how_far_values_reach(
    name: str, reach: float, unit: str, sure: bool
) -> None:
    found = column(name, reach)
    assert (found.unit, found.sure) == (unit, sure)


def test_a_single_spike_does_not_make_watts_of_kilowatts() -> None:
    values = np.full(1000, 12.0)
    values[500] = 1e5
    assert find_columns(signals_of_columns({"Leistung Spindel": values}))[0].unit == "kW"


def link(level: float, swing: float) -> bool:
    """Whether a column at this level, whose nine tenths lie a part of it above its one tenth, stands like a DC link."""
    stands = level * (1.0 + swing * 0.625 * WAVE)
    found = find_columns(signals_of_columns({"S1_DCBusVoltage": 5.0 * WAVE, "S1_Reserve": stands}))
    (column,) = [each for each in found if each.channel == "spindle_dc_voltage"]
    assert not column.sure
    assert ("unlike a DC link" in column.reason) == (column.native == "S1_DCBusVoltage")
    return column.native == "S1_Reserve"


@pytest.mark.parametrize(
    ("level", "swing", "stands"),
    [(99.0, 0.1, False), (101.0, 0.1, True), (1190.0, 0.1, True), (1210.0, 0.1, False),
     (560.0, 0.24, True), (560.0, 0.26, False)],
)  # fmt: skip
def test_a_link_stands_between_a_hundred_and_twelve_hundred_volts_and_hardly_moves(
    level: float, swing: float, stands: bool
) -> None:
    assert link(level, swing) == stands


def mill(rows: int = 200, factor: float = 1.0, noise: float = 0.0, cutting: int = 200) -> dict[str, np.ndarray]:
    """A spindle in N m and rpm with a power of its own, and a column without a name that follows the torque."""
    draw = np.random.default_rng(0)
    torque = np.where(np.arange(rows) < cutting, draw.uniform(5.0, 9.0, rows), 0.0)
    speed = np.where(np.arange(rows) % 2, 3000.0, 8000.0)
    watts = torque * speed * 2.0 * np.pi / 60.0
    return {
        "Drehmoment Spindel [Nm]": torque,
        "n_soll_Spindel [1/min]": speed,
        "Leistung Spindel": factor * watts + 1e-12,
        "K18": 2.5 * torque + noise * draw.standard_normal(rows),
    }


def found_in(values: dict[str, np.ndarray]) -> dict[str, ProposedChannel]:
    return {column.channel: column for column in find_columns(signals_of_columns(values))}


@pytest.mark.parametrize(
    ("factor", "unit", "sure"),
    [
        (1.0, "W", True),
        (0.34, "W", True),
        (0.32, "W", False),
        (2.9, "W", True),
        (3.1, "W", False),
        (0.032, "W", False),
        (0.031, "kW", False),
        (0.0029, "kW", True),
        (0.001, "kW", True),
        (0.00034, "kW", True),
        (0.00032, "kW", False),
    ],
)
def test_watts_are_told_from_kilowatts_by_torque_times_speed(factor: float, unit: str, sure: bool) -> None:
    power = found_in(mill(factor=factor))["spindle_power"]
    assert (power.unit, power.sure) == (unit, sure)
    assert "torque times speed is" in power.reason


def test_a_few_rows_under_load_do_not_tell_watts_from_kilowatts() -> None:
    few, enough = (found_in(mill(cutting=rows))["spindle_power"] for rows in (49, 50))
    assert "torque times speed" not in few.reason
    assert "torque times speed" in enough.reason


@pytest.mark.parametrize(("noise", "follows"), [(0.6, True), (0.9, False)])
def test_a_column_without_a_name_is_a_current_where_it_follows_the_torque(noise: float, follows: bool) -> None:
    values = mill(noise=noise)
    alike = np.corrcoef(values["K18"], values["Drehmoment Spindel [Nm]"])[0, 1]
    assert 0.94 < alike < 0.99
    assert ("spindle_current" in found_in(values)) == follows == (alike > 0.97)


def test_fewer_than_fifty_rows_follow_nothing() -> None:
    assert "spindle_current" not in found_in(mill(rows=49))
    assert "spindle_current" in found_in(mill(rows=50))


def test_a_column_that_is_zero_throughout_was_not_measured() -> None:
    assert (
        find_columns(
            signals_of_columns({"Drehmoment X-Achse [Nm]": np.zeros(9), "Drehmoment Y-Achse [Nm]": np.full(9, np.nan)})
        )
        == []
    )


def test_measured_values_are_sensors_and_set_points_are_commands() -> None:
    values = {"n_ist_Spindel [1/min]": WAVE, "n_soll_Spindel [1/min]": WAVE, "Strom Soll Spindel [A]": WAVE}
    found = found_in(values | {"Strom [A]": WAVE, "Strom Spindel [A]": WAVE, "Strom U_Achse [A]": WAVE})
    assert {name: column.native for name, column in found.items()} == {
        "spindle_speed": "n_soll_Spindel [1/min]",
        "spindle_current": "Strom Spindel [A]",
    }
    assert found["spindle_current"].sure
    assert not found_in({"Strom [A]": WAVE})["spindle_current"].sure, "nobody says whose it is"
    assert not found_in({"n_ist_Spindel [1/min]": WAVE})["spindle_speed"].sure, "it may be the actual speed"


def test_further_channels_are_named_after_their_drive_and_quantity() -> None:
    others = other_channels(
        signals_of_columns({"SP LOAD": WAVE, "Xload": WAVE, "DES_POS|1": WAVE, "Strom X [A]": WAVE}), ["Strom X [A]"]
    )
    assert [(each.channel, each.quantity) for each in others] == [("spindle_load", "load"), ("x_load", "load")]


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("Motortemperatur Z", "z_motor_temp"),
        ("Temperatur Spindel", "spindle_motor_temp"),
        ("Umgebungstemperatur", "ambient_temp"),
        ("Temperature", None),
        ("Strom Spindel [A]", "spindle_current"),
        ("Drehmoment X [Nm]", "x_torque"),
        ("Torque_cmd X", None),
        ("Leistung [kW]", "spindle_power"),
    ],
)
def test_a_sensor_belongs_to_the_drive_that_its_name_says(name: str, channel: str | None) -> None:
    assert [found.channel for found in find_columns(signals_of_columns({name: 50.0 * WAVE}))] == (
        [channel] if channel else []
    )
