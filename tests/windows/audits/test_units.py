"""A wrong unit is found, and its factor named; different machines in right units are left alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossfeed.logs.declaration import LogFormat
from crossfeed.logs.log_formats import log_format_named
from crossfeed.logs.pipeline import ingest
from crossfeed.logs.table import Group, Table
from crossfeed.schema import canonical
from crossfeed.windows.audits.run import run_checks
from crossfeed.windows.audits.subject import Signal
from crossfeed.windows.audits.units import check_units, electric_balance, factors, nearest
from tests.windows.audits.conftest import case_of, spindle_rows

FEEDS = {"feed_x", "feed_y", "feed_z"}


def _declared_as(kind: LogFormat, channels: set[str], unit: str) -> LogFormat:
    """The kind of log with the unit declaration of some channels removed: schema units are assumed."""
    columns = tuple(replace(c, unit=unit) if c.channel in channels else c for c in kind.columns)
    return replace(kind, columns=columns)


def test_the_pair_in_its_right_units_violates_nothing(pair: Path, source: Table) -> None:
    report = run_checks(case_of(source, ingest(log_format_named("joanneum"), pair / "joanneum")))
    assert report.exit_code == 0, report.of("violation")
    assert not [finding for finding in report.of("warning") if finding.check == "units"]


@pytest.mark.parametrize(
    ("channels", "unit", "factor"),
    [
        ({"spindle_power", "z_power"}, "kW", 1000),
        ({"spindle_power"}, "kW", 1000),
        ({"z_power"}, "kW", 1000),
        (FEEDS, "mm/min", 60),
        ({"feed_x"}, "mm/min", 60),
        ({"spindle_speed"}, "rpm", 6),
    ],
)
def test_a_removed_unit_declaration_is_found_and_its_factor_named(
    pair: Path, source: Table, channels: set[str], unit: str, factor: int
) -> None:
    target = ingest(_declared_as(log_format_named("joanneum"), channels, unit), pair / "joanneum")
    report = run_checks(case_of(source, target), only=["units"])
    assert report.exit_code == 1
    assert {finding.numbers["factor"] for finding in report.of("violation")} == {factor}
    assert all(f"factor {factor}" in finding.measured for finding in report.of("violation"))
    named = " ".join(finding.subject for finding in report.of("violation"))
    assert all(channel in named for channel in channels)


@pytest.mark.parametrize(
    ("channels", "unit", "factor"),
    [({"spindle_power", "z_power"}, "kW", 1000), (FEEDS, "mm/min", 60), ({"spindle_speed"}, "rpm", 6)],
)
def test_physics_finds_the_wrong_unit_in_one_table_alone(
    pair: Path, channels: set[str], unit: str, factor: int
) -> None:
    target = ingest(_declared_as(log_format_named("joanneum"), channels, unit), pair / "joanneum")
    report = run_checks(case_of(target), only=["units"])
    assert report.exit_code == 1
    assert factor in {finding.numbers.get("factor") for finding in report.of("violation")}


def _spindle_table(machine: str = "mill", **changes: float) -> Table:
    values = {name: column * changes.get(name, 1.0) for name, column in spindle_rows().items()}
    schema = canonical()
    rows = len(values["spindle_speed"])
    sensors, commands = np.full((rows, 17), np.nan), np.zeros((rows, 4))
    sensors[:, 1], sensors[:, 2], commands[:, 0] = (
        values["spindle_torque"],
        values["spindle_power"],
        values["spindle_speed"],
    )
    return Table(schema, (Group(machine, "s", "r", "p", 0, rows),), np.arange(rows) * 1.0, sensors, commands, 1.0, {})


def test_a_sound_spindle_passes() -> None:
    assert not list(check_units(case_of(_spindle_table())))


def test_a_spindle_six_times_as_fast_on_another_machine_is_no_unit_error() -> None:
    """Two real machines differ by 6.25 in spindle speed: only physics can tell that from deg/s."""
    fast = _spindle_table("fast", spindle_speed=4.0, spindle_power=4.0)
    slow = _spindle_table("slow", spindle_speed=4.0 / 6.0, spindle_power=4.0 / 6.0)
    severities = {finding.severity for finding in check_units(case_of(fast, slow))}
    assert severities == {"warning"}


@pytest.mark.parametrize(
    ("changes", "factor", "channel"),
    [
        ({"spindle_power": 1000.0}, 1000, "spindle_power"),
        ({"spindle_speed": 6.0}, 6, "spindle_speed"),
        ({"spindle_speed": 1 / 60.0}, 60, "spindle_speed"),
        ({"spindle_torque": 100.0}, 100, "spindle_torque"),
    ],
)
def test_each_contradiction_names_its_column(changes: dict[str, float], factor: int, channel: str) -> None:
    violations = [f for f in check_units(case_of(_spindle_table(**changes))) if f.severity == "violation"]
    assert violations[0].numbers["factor"] == pytest.approx(factor)
    assert channel in violations[0].subject


def test_kelvin_is_recognised() -> None:
    table = _spindle_table()
    table.sensors[:, 10] = 300.0 + np.arange(len(table)) / 100.0
    findings = list(check_units(case_of(table)))
    assert [(finding.severity, finding.cause) for finding in findings] == [("violation", "values in kelvin")]


def test_a_contradiction_that_no_unit_explains_is_a_warning() -> None:
    findings = list(check_units(case_of(_spindle_table(spindle_torque=1 / 350.0))))
    assert [finding.severity for finding in findings] == ["warning"]


def test_real_machines_of_very_different_size_are_left_alone(michigan_folder: Path, source: Table) -> None:
    """A desktop mill beside a machining centre: 24 times slower in rapid traverse, 108 times less power."""
    table = ingest(log_format_named("michigan"), michigan_folder)
    report = run_checks(case_of(source, table), only=["units", "swapped", "commands"])
    assert report.exit_code == 0, report.of("violation")


def test_factors_come_from_the_units() -> None:
    sizes = {factor.unit: round(factor.size, 3) for factor in factors("feed", "mm/min")}
    assert sizes["mm/s"] == 60
    assert sizes["in/min"] == 25.4
    found = nearest(1 / 70.0, factors("feed", "mm/min"))
    assert found is not None
    assert found[0].unit == "mm/s"
    assert nearest(0.0, factors("feed", "mm/min")) is None


@pytest.mark.parametrize(
    ("channel", "reach", "told"),
    [
        ("spindle_current", 1_990.0, False),
        ("spindle_current", 2_010.0, True),
        ("spindle_torque", 4_990.0, False),
        ("spindle_torque", 5_010.0, True),
        ("spindle_motor_temp", 199.0, False),
        ("spindle_motor_temp", 201.0, True),
    ],
)
def test_what_no_machine_tool_shows_is_told(channel: str, reach: float, told: bool) -> None:
    schema = canonical()
    sensors = np.full((200, 17), np.nan)
    sensors[:, schema.sensor_names.index(channel)] = reach
    table = Table(
        schema, (Group("mill", "s", "r", "p", 0, 200),), np.arange(200) * 1.0, sensors, np.zeros((200, 4)), 1.0, {}
    )
    assert [f.subject for f in check_units(case_of(table)) if "machine tools show" in f.measured] == (
        [f"mill: {channel}"] if told else []
    )


def _signal(values: np.ndarray, quantity: str, unit: str) -> Signal:
    return Signal(quantity, quantity, unit, "sensor", values)


@pytest.mark.parametrize("unit", ["kW", "W"])
def test_electric_power_is_compared_in_watts(unit: str) -> None:
    volts, amperes = np.full(20, 400.0), np.linspace(5.0, 10.0, 20)
    watts = 0.8 * volts * amperes
    power = _signal(watts / 1000.0 if unit == "kW" else watts, "power", unit)
    balance = electric_balance(power, _signal(volts, "voltage", "V"), _signal(amperes, "current", "A"))
    assert balance is not None, "twenty loaded rows are enough"
    assert (balance.ratio, balance.rows) == (pytest.approx(0.8), 20)
    fewer = [
        replace(signal, values=signal.values[1:])
        for signal in (power, _signal(volts, "voltage", "V"), _signal(amperes, "current", "A"))
    ]
    assert electric_balance(*fewer) is None
