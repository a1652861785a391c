"""Impossible machines are refused with the value that makes them impossible."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossfeed.errors import MachineError
from crossfeed.schema import canonical
from crossfeed.sim.physics.catalogue import machine_named, random_machine
from crossfeed.sim.physics.parameters import MachineParameters


def changed(**places: Any) -> dict[str, Any]:
    """The values of a Spinner with some of them replaced; a double underscore leads inside."""
    values = machine_named("spinner_620").model_dump()
    for place, value in places.items():
        *path, name = place.split("__")
        inner = values
        for part in path:
            inner = inner[part]
        inner[name] = value
    return values


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("spindle__inertia", 0.0, "spindle|inertia"),
        ("spindle__inertia", float("nan"), "inertia"),
        ("x__mass", -3.0, "mass"),
        ("z__pitch", 0.0, "pitch"),
        ("z__gravity", -1.0, "gravity"),
        ("spindle__viscous", 1.0, "friction at 20000 rpm needs"),
        ("y__torque_limit", 1.0, "torque_limit is 1 N m"),
        ("link__regeneration_limit", 100.0, "below voltage"),
        ("logging__sensors", ("spindle_current", "warp_factor"), "unknown: warp_factor"),
        ("logging__sensors", (), "none given"),
        ("logging__noise", {"spindle_current": -1.0}, "spindle_current"),
        ("spindle__colour", "red", "colour"),
        ("x__sense", 0, "sense"),
        ("cutting__ripple", 0.9, "ripple"),
    ],
)
def test_impossible_values_are_named(place: str, value: object, message: str) -> None:
    with pytest.raises(MachineError, match=message) as caught:
        MachineParameters(**changed(**{place: value}))
    assert caught.value.remedy


@pytest.mark.parametrize("name", ["spinner_620", "spinner_630"])
def test_known_machines_survive_a_round_trip_through_json(name: str) -> None:
    machine = machine_named(name)
    again = MachineParameters.model_validate_json(machine.model_dump_json())
    assert again == machine
    assert again.fingerprint == machine.fingerprint


@given(seed=st.integers(0, 10_000))
def test_every_random_machine_is_possible_and_repeatable(seed: int) -> None:
    machine = random_machine(seed)
    assert machine == random_machine(seed)
    assert 4 <= len(machine.logging.sensors) <= 17
    assert set(machine.logging.sensors) & set(canonical().sensor_names[:3])


def test_random_machines_differ() -> None:
    machines = [random_machine(seed) for seed in range(12)]
    assert len({machine.fingerprint for machine in machines}) == 12
    assert len({machine.logging.sensors for machine in machines}) > 6


def test_machines_are_found_by_name() -> None:
    assert machine_named("spinner_630").name == "spinner_630"
    assert machine_named("random:7") == random_machine(7)
    with pytest.raises(MachineError, match="no machine 'lathe'"):
        machine_named("lathe")
