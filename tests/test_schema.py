from pathlib import Path

import numpy as np
import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import SchemaError
from crossfeed.schema import (
    FACTS,
    QUANTITIES,
    Channel,
    Conversion,
    Schema,
    _registry,
    canonical,
    conversion,
    convertible,
    facts_of,
)

USER_SCHEMA = """
name: mill-turn
quantities: {chatter: mm/s}
sensors:
  - {name: x_load, quantity: load, unit: "%"}
  - {name: spindle_temp, quantity: temperature, unit: degF}
  - {name: head_chatter, quantity: chatter, unit: in/s}
commands:
  - {name: feed_override, quantity: override, unit: "%"}
  - {name: spindle_speed, quantity: rotational speed, unit: deg/s}
"""


def test_the_canonical_schema_has_the_seventeen_sensors_and_four_commands_in_order() -> None:
    schema = canonical()
    assert schema.sensor_names[:3] == ("spindle_current", "spindle_torque", "spindle_power")
    assert schema.sensor_names[-1] == "ambient_temp"
    assert len(schema.sensors) == 17
    assert schema.command_names == ("spindle_speed", "feed_x", "feed_y", "feed_z")
    assert schema.channel("z_power").unit == "kW"


@pytest.mark.parametrize(
    ("native", "wanted", "value", "result"),
    [
        ("W", "kW", 1500.0, 1.5),
        ("mm/s", "mm/min", 10.0, 600.0),
        ("deg/s", "rpm", 6000.0, 1000.0),
        ("Nm", "N m", 3.0, 3.0),
        ("degF", "degC", 212.0, 100.0),
        ("K", "degC", 273.15, 0.0),
        ("rev/s", "rpm", 2.0, 120.0),
        ("%", "1", 50.0, 0.5),
        ("°C", "degC", 21.0, 21.0),
        ("1/min", "rpm", 7.0, 7.0),
    ],
)
def test_factors_are_derived_from_the_two_units(native: str, wanted: str, value: float, result: float) -> None:
    scale, offset = conversion(native, wanted)
    assert value * scale + offset == pytest.approx(result, abs=1e-9)


@pytest.mark.parametrize(("native", "wanted"), [("W", "A"), ("mm", "mm/min"), ("furlongs?", "A"), ("", "A")])
def test_a_unit_that_does_not_fit_the_quantity_is_refused(native: str, wanted: str) -> None:
    with pytest.raises(SchemaError, match="cannot be turned into"):
        conversion(native, wanted)


@given(st.sampled_from(sorted(set(QUANTITIES.values()))), st.floats(-1e6, 1e6))
def test_there_and_back_is_the_identity(unit: str, value: float) -> None:
    base = {"degC": "kelvin"}.get(unit) or str(pint.get_application_registry().parse_units(_spelled(unit)))
    there, back = conversion(unit, base or "1"), conversion(base or "1", unit)
    returned = (value * there.scale + there.offset) * back.scale + back.offset
    assert np.isclose(returned, value, rtol=1e-9, atol=1e-6)


def _spelled(unit: str) -> str:
    return {"%": "percent", "N m": "N*m", "1": ""}.get(unit, unit)


def test_a_user_schema_may_have_any_channels_and_its_own_quantities(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(USER_SCHEMA)
    schema = Schema.from_yaml(path)
    assert schema.sensor_names == ("x_load", "spindle_temp", "head_chatter")
    path.write_text(schema.to_yaml())
    assert Schema.from_yaml(path) == schema


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (("quantity: load", "quantity: weight"), "unknown quantity 'weight'"),
        (('unit: "%"}\n  - {name: spindle_temp', "unit: A}\n  - {name: spindle_temp"), "cannot be turned into"),
        (("name: spindle_temp", "name: x_load"), "twice: x_load"),
        (("commands:", "comands:"), "comands"),
        (("name: mill-turn", "name: [unclosed"), "cannot be read"),
    ],
)
def test_a_broken_schema_file_says_what_is_wrong(tmp_path: Path, damage: tuple[str, str], complaint: str) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(USER_SCHEMA.replace(*damage))
    with pytest.raises(SchemaError) as caught:
        Schema.from_yaml(path)
    assert complaint in str(caught.value)


def test_a_missing_schema_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.from_yaml(tmp_path / "nowhere.yaml")


def test_the_fingerprint_knows_order_and_units_but_not_the_name() -> None:
    schema = canonical()
    assert schema.model_copy(update={"name": "other"}).fingerprint == schema.fingerprint
    assert Schema(name="x", sensors=schema.sensors[::-1], commands=schema.commands).fingerprint != schema.fingerprint
    in_watts = tuple(
        Channel(name=c.name, quantity=c.quantity, unit="W") if c.quantity == "power" else c for c in schema.sensors
    )
    assert Schema(name="x", sensors=in_watts, commands=schema.commands).fingerprint != schema.fingerprint


def test_a_changed_copy_does_not_keep_the_old_names_and_fingerprint() -> None:
    schema = canonical()
    before = schema.fingerprint
    shorter = schema.model_copy(update={"sensors": schema.sensors[:3]})
    assert len(shorter.sensor_names) == 3
    assert shorter.fingerprint != before


def test_an_unknown_channel_is_named_with_the_known_ones() -> None:
    with pytest.raises(SchemaError, match="no channel 'w_torque'") as caught:
        canonical().channel("w_torque")
    assert "z_torque" in caught.value.expected


@pytest.mark.parametrize("unit", ["A", "N", "V", "W"])
def test_thousands_known_without_the_registry_are_those_of_the_registry(unit: str) -> None:
    registry = _registry()
    scale = registry.Quantity(1.0, f"k{unit}").to(unit).magnitude
    assert conversion(f"k{unit}", unit) == Conversion(scale, 0.0)


@pytest.mark.parametrize(
    ("native", "wanted", "scale"),
    [
        ("0.0001 rpm", "rpm", 1e-4),
        ("0.1 mm/min", "mm/min", 0.1),
        ("1e-3 deg", "deg", 1e-3),
        ("0.1 %", "%", 0.1),
        ("1/min", "rpm", 1.0),
    ],
)
def test_increments_of_a_controller_were_no_unit(native: str, wanted: str, scale: float) -> None:
    assert conversion(native, wanted).scale == pytest.approx(scale)
    assert conversion(native, wanted).offset == pytest.approx(0.0)


def test_a_tenth_of_a_degree_keeps_its_zero() -> None:
    assert conversion("0.1 degC", "degC") == pytest.approx((0.1, 0.0))
    assert conversion("0.1 degC", "kelvin") == pytest.approx((0.1, 273.15))


@pytest.mark.parametrize("name", FACTS)
def test_what_is_known_of_a_quantity_fits_together(name: str) -> None:
    facts = facts_of(name)
    units = (*facts.others, *(unit for _, unit in facts.by_reach))
    assert all(convertible(unit, facts.unit) for unit in units)
    assert all(low < high for low, high in (span for span in (facts.reach, facts.valid) if span))
    limits = [limit for limit, _ in facts.by_reach]
    assert limits == sorted(set(limits))
    if facts.ending:
        assert any(c.name.endswith(f"_{facts.ending}") and c.quantity == name for c in canonical().sensors)


def test_a_quantity_that_a_user_adds_needs_no_table() -> None:
    sound = {"name": "spindle_sound", "quantity": "sound", "unit": "dimensionless"}
    speed = {"name": "n", "quantity": "rotational speed", "unit": "rpm"}
    content = {"name": "own", "sensors": [sound], "commands": [speed], "quantities": {"sound": "dimensionless"}}
    channel = Schema.from_mapping(content).channel("spindle_sound")
    assert (channel.has_zero, channel.feels_the_cut, channel.moves, channel.idle) == (True, False, False, 0.0)


def test_an_override_that_nobody_can_turn_stands_at_a_hundred_percent() -> None:
    assert Channel(name="o", quantity="override", unit="%").idle == 100.0
    assert Channel(name="o", quantity="override", unit="1").idle == pytest.approx(1.0)
    assert Channel(name="f", quantity="feed", unit="mm/min").idle == 0.0
