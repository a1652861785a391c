"""Which channel each column of an unknown log is: by its name, by its unit, and by physics.

Power is torque times speed, a current follows its torque: that tells units apart, and finds columns whose names say
nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crossfeed.machines.column_names import NameReading, read_name
from crossfeed.programs.trajectory import PATH
from crossfeed.schema import QUANTITIES, Schema, canonical, conversion
from crossfeed.show.tables import significant

# Alike to within this correlation, two signals are one physical thing; rows below so many say nothing.
_FOLLOWS, _FEWEST_ROWS = 0.97, 50
_Values = Mapping[str, np.ndarray]  # the columns of a log by their names
_ENDINGS = {
    "current": "current",
    "torque": "torque",
    "power": "power",
    "voltage": "dc_voltage",
    "modulation depth": "mod_depth",
}


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column with its channel, its probable unit, and why; where it is not sure, a person must look."""

    native: str
    channel: str
    quantity: str
    unit: str
    reason: str
    sure: bool = True


def find_columns(values: _Values) -> list[FoundColumn]:
    """The columns that are channels of the canonical schema, each channel at most once."""
    # A column that is zero throughout was not measured.
    values = {name: column for name, column in values.items() if np.nanmax(np.abs(column), initial=0.0) > 0.0}
    readings = {name: read_name(name) for name in values}
    chosen: dict[str, FoundColumn] = {}
    order = sorted(values, key=lambda name: _preference(readings[name]))
    for name in order:
        channel = _channel(readings[name], set(chosen), canonical())
        if channel is None or channel[0] in chosen:
            continue
        quantity = readings[name].quantity
        assert quantity is not None
        unit, why, sure = _unit(readings[name], values[name])
        told = [part for part in (why, channel[1]) if part]
        chosen[channel[0]] = FoundColumn(name, channel[0], quantity, unit, "; ".join(told), sure and not channel[1])
    _mend_link(values, readings, chosen)
    _find_by_physics(values, readings, chosen)
    _mend_power(values, chosen)
    schema = canonical()
    ranks = [*schema.sensor_names, *schema.command_names]
    return sorted(chosen.values(), key=lambda column: ranks.index(column.channel))


def other_channels(values: _Values, taken: Sequence[str]) -> list[FoundColumn]:
    """Columns of a known quantity that have no canonical channel, such as loads: names for a schema of one's own."""
    found: dict[str, FoundColumn] = {}
    for name in values:
        reading = read_name(name)
        if name in taken or reading.quantity not in QUANTITIES or reading.quantity in ("position", "override"):
            continue
        unit, why, sure = _unit(reading, values[name])
        channel = "_".join(part for part in (reading.drive, reading.quantity.replace(" ", "_")) if part)
        found.setdefault(channel, FoundColumn(name, channel, reading.quantity, unit, why, sure))
    return list(found.values())


def find_path_feed(values: _Values, columns: Sequence[FoundColumn]) -> FoundColumn | None:
    """The feed along the path, where the control tells no axis its own; a set-point before what was measured."""
    if any(column.quantity == "feed" for column in columns):
        return None
    readings = {name: read_name(name) for name in values}
    paths = [name for name, reading in readings.items() if reading.quantity == "feed" and reading.drive is None]
    if not paths:
        return None
    name = min(paths, key=lambda path: _preference(readings[path]))
    unit, why, sure = _unit(readings[name], values[name])
    guess = "" if readings[name].commanded else "no set-point is named, this may be the actual feed"
    return FoundColumn(name, PATH, "feed", unit, "; ".join(part for part in (why, guess) if part), sure and not guess)


def _preference(reading: NameReading) -> tuple[bool, bool, bool]:
    """Set-points come first for what is commanded, measured values for what is sensed, named drives before others."""
    commanded_kind = reading.quantity in ("rotational speed", "feed")
    return (
        not reading.commanded if commanded_kind else reading.commanded,
        reading.drive is None,
        reading.actual and commanded_kind,
    )


def _channel(reading: NameReading, taken: set[str], schema: Schema) -> tuple[str, str] | None:
    """The canonical channel of a name, with a remark where it is a guess."""
    quantity, drive = reading.quantity, reading.drive
    if quantity in ("rotational speed", "feed"):
        if quantity == "rotational speed" and drive in ("spindle", None):
            remark = "" if drive else "no drive is named, taken for the spindle"
            actual = "" if reading.commanded else "no set-point is named, this may be the actual speed"
            return "spindle_speed", "; ".join(part for part in (remark, actual) if part)
        if quantity == "feed" and drive in ("x", "y", "z"):
            return f"feed_{drive}", "" if reading.commanded else "no set-point is named, this may be the actual feed"
        return None
    if reading.commanded or quantity is None:
        return None
    if quantity == "temperature":
        name = "ambient_temp" if drive == "ambient" else f"{drive}_motor_temp" if drive else None
    else:
        name = f"{drive or 'spindle'}_{_ENDINGS[quantity]}" if quantity in _ENDINGS else None
    if name not in schema.sensor_names or (drive is None and name in taken):
        return None
    return name, "" if drive else "no drive is named, taken for the spindle"


def _unit(reading: NameReading, values: np.ndarray) -> tuple[str, str, bool]:
    """The unit, why, and whether it is sure."""
    assert reading.quantity is not None
    if reading.unit is not None:
        return reading.unit, "its name states the unit", True
    usual = QUANTITIES[reading.quantity]
    known = np.abs(values[np.isfinite(values)])
    reach = float(np.quantile(known, 0.99)) if len(known) else 0.0
    told = f"reaches {significant(reach)}"
    if reading.quantity == "power":
        return ("W" if reach > 150 else "kW"), told, False
    if reading.quantity == "feed":
        return ("mm/s" if 0 < reach <= 700 else "mm/min"), told, False
    if reading.quantity == "rotational speed":
        return ("deg/s" if reach > 45_000 else "revolution/s" if 0 < reach <= 90 else "rpm"), told, False
    if reading.quantity == "temperature":
        return ("kelvin" if reach > 250 else "degC"), told, reach < 120
    return usual, told, False


def _mend_link(values: _Values, readings: Mapping[str, NameReading], chosen: dict[str, FoundColumn]) -> None:
    """A DC link stands at hundreds of volts: find the column that does, where the one of that name does not."""
    named = chosen.get("spindle_dc_voltage")
    if named is None or _stands_like_a_link(values[named.native]):
        return
    taken = {column.native for column in chosen.values()}
    drive = readings[named.native].drive
    other = [name for name in values if name not in taken and readings[name].drive == drive]
    other = [name for name in other if _stands_like_a_link(values[name])]
    if other:
        reason = f"stands like a DC link, and {named.native} does not: two names may be interchanged"
        chosen["spindle_dc_voltage"] = replace(named, native=other[0], reason=reason, sure=False)
    else:
        chosen["spindle_dc_voltage"] = replace(named, reason=f"{named.reason}, unlike a DC link", sure=False)


def _stands_like_a_link(column: np.ndarray) -> bool:
    known = np.abs(column[np.isfinite(column)])
    if not len(known):
        return False
    low, middle, high = np.quantile(known, (0.1, 0.5, 0.9))
    return bool(100.0 <= middle <= 1200.0 and high - low < 0.25 * middle)


def _find_by_physics(values: _Values, readings: Mapping[str, NameReading], chosen: dict[str, FoundColumn]) -> None:
    """Name columns that say nothing: one that is torque times speed, one that follows the torque."""
    torque, speed = chosen.get("spindle_torque"), chosen.get("spindle_speed")
    if torque is None or speed is None:
        return
    taken = {column.native for column in chosen.values()}
    effort, product = np.abs(values[torque.native]), np.abs(values[torque.native] * values[speed.native])
    for name in values:
        if name in taken or readings[name].quantity is not None:
            continue
        if "spindle_power" not in chosen and _correlation(np.abs(values[name]), product) > _FOLLOWS:
            reason = f"is {torque.native} times {speed.native}"
            chosen["spindle_power"] = FoundColumn(name, "spindle_power", "power", "kW", reason, sure=False)
        elif "spindle_current" not in chosen and _correlation(np.abs(values[name]), effort) > _FOLLOWS:
            reason = f"follows {torque.native}"
            chosen["spindle_current"] = FoundColumn(name, "spindle_current", "current", "A", reason, sure=False)


def _mend_power(values: _Values, chosen: dict[str, FoundColumn]) -> None:
    """Tell watts from kilowatts by torque times speed, where no name states the unit."""
    found = [chosen.get(f"spindle_{what}") for what in ("power", "torque", "speed")]
    if any(column is None for column in found):
        return
    power, torque, speed = (column for column in found if column is not None)
    if power.reason.startswith("its name"):
        return
    radians = values[speed.native] * conversion(speed.unit, "rad/s").scale
    watts = np.abs(values[torque.native] * conversion(torque.unit, "N m").scale * radians)
    own = np.abs(values[power.native])
    rows = np.isfinite(watts) & np.isfinite(own) & (own > 0)
    rows &= watts > 0.05 * float(np.nanmax(watts, initial=0.0))
    if rows.sum() < _FEWEST_ROWS:
        return
    ratio = float(np.median(watts[rows] / own[rows]))
    unit = "kW" if abs(math.log(ratio / 1000)) < abs(math.log(ratio)) else "W"
    off = ratio / (1000 if unit == "kW" else 1)
    reason = f"torque times speed is {off:.2g} times it in {unit}"
    chosen["spindle_power"] = replace(power, unit=unit, reason=reason, sure=1 / 3 < off < 3)


def _correlation(one: np.ndarray, two: np.ndarray) -> float:
    rows = np.isfinite(one) & np.isfinite(two)
    if rows.sum() < _FEWEST_ROWS or one[rows].std() == 0 or two[rows].std() == 0:
        return 0.0
    return float(np.corrcoef(one[rows], two[rows])[0, 1])
