"""The Mazak Integrex 100-IV of the NIST test bed: the one MTConnect device whose channels are known by name."""

from crossfeed.machines.declaration import NativeColumn
from crossfeed.schema import Channel, Schema

_LOAD, _TEMPERATURE, _OVERRIDE = (0.0, 300.0), (1.0, 150.0), (0.0, 300.0)
_SPEED, _FEED = (0.0, 20_000.0), (0.0, 1_000.0)

# Units as in the Mazak's device model; those of the model that lies beside the logs count.
COLUMNS = (
    NativeColumn("Xload", "x_load", "%", _LOAD),
    NativeColumn("Yload", "y_load", "%", _LOAD),
    NativeColumn("Zload", "z_load", "%", _LOAD),
    NativeColumn("Sload", "spindle_load", "%", _LOAD),
    NativeColumn("S2load", "turning_spindle_load", "%", _LOAD),
    NativeColumn("Stemp", "spindle_temp", "degC", _TEMPERATURE),
    NativeColumn("S2temp", "turning_spindle_temp", "degC", _TEMPERATURE),
    NativeColumn("Srpm", "spindle_speed", "rpm", _SPEED),
    NativeColumn("S2rpm", "turning_spindle_speed", "rpm", _SPEED),
    NativeColumn("Xfrt", "feed_x", "mm/s", _FEED),
    NativeColumn("Yfrt", "feed_y", "mm/s", _FEED),
    NativeColumn("Zfrt", "feed_z", "mm/s", _FEED),
    NativeColumn("Fovr", "feed_override", "%", _OVERRIDE),
    NativeColumn("Frapidovr", "rapid_override", "%", _OVERRIDE),
    NativeColumn("Sovr", "spindle_override", "%", _OVERRIDE),
)


def _channels(quantity: str, unit: str, *names: str) -> tuple[Channel, ...]:
    return tuple(Channel(name=name, quantity=quantity, unit=unit) for name in names)


SCHEMA = Schema(
    name="mazak_integrex",
    sensors=(
        *_channels("load", "%", "x_load", "y_load", "z_load", "spindle_load", "turning_spindle_load"),
        *_channels("temperature", "degC", "spindle_temp", "turning_spindle_temp"),
    ),
    commands=(
        *_channels("rotational speed", "rpm", "spindle_speed", "turning_spindle_speed"),
        *_channels("feed", "mm/min", "feed_x", "feed_y", "feed_z"),
        *_channels("override", "%", "feed_override", "rapid_override", "spindle_override"),
    ),
)
