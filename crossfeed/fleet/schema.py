"""The vocabulary of the fleet: one wide schema of which every machine shows a part.

The words of a name tell place and detail (`spindle_output_current`), its quantity the physics.
"""

from functools import cache

from crossfeed.schema import QUANTITIES, Channel, Schema, canonical

AXES = ("x", "y", "z")
UNKNOWN = "unknown"
OTHERS = ("other_1", "other_2", "other_3")

_DRIVE = {
    "current": "current",
    "output_current": "current",
    "torque": "torque",
    "power": "power",
    "load": "load",
    "output_voltage": "voltage",
}
_SPINDLE = _DRIVE | {
    "dc_voltage": "voltage",
    "mod_depth": "modulation depth",
    "actual_speed": "rotational speed",
    "motor_temp": "temperature",
}
_AXIS = _DRIVE | {"velocity": "feed", "motor_temp": "temperature"}


def _channel(name: str, quantity: str) -> Channel:
    return Channel(name=name, quantity=quantity, unit="1" if quantity == UNKNOWN else QUANTITIES[quantity])


@cache
def fleet_schema() -> Schema:
    """Every sensor a machine of the fleet can show, and the four canonical commands."""
    drives = (("spindle", _SPINDLE), *((axis, _AXIS) for axis in AXES))
    return Schema(
        name="fleet",
        sensors=(
            *(_channel(f"{drive}_{detail}", quantity) for drive, own in drives for detail, quantity in own.items()),
            _channel("ambient_temp", "temperature"),
            *(_channel(name, UNKNOWN) for name in OTHERS),
        ),
        commands=canonical().commands,
        quantities={UNKNOWN: "1"},
    )
