"""What logged signals are, proposed from their names, their units and what they show: the one place that guesses.

Columns of CSV and Parquet files, nodes of OPC UA servers and topics of MQTT brokers are read by the words of their
names: English and German, the letters of formulas (I, M, P, n, v, T), parameter numbers of Siemens drives and their
axes in variables of the control, and the habits of Heidenhain, Fanuc and Fagor loggers. MTConnect items state their
type. All words and types stand in `names.yaml`. Where values are at hand, physics decides too: power is torque times
speed, a current follows its torque; that tells units apart, and finds columns whose names say nothing.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from crossfeed.programs.trajectory import PATH
from crossfeed.schema import QUANTITIES, canonical, conversion, convertible, facts_of
from crossfeed.show.tables import significant


def _by_member(of_key: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Each member of some lists with the key of its list."""
    return {member: key for key, members in of_key.items() for member in members}


# The loader written in C, where it is there, is twenty times as quick.
_TEXT = Path(__file__).with_name("names.yaml").read_text(encoding="utf-8")
NAMES: dict[str, Any] = yaml.load(_TEXT, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
COLUMNS: dict[str, list[str]] = NAMES["columns"]
STATES = _by_member(NAMES["opc_states"])
_STEMS: list[tuple[str, list[str]]] = NAMES["stems"]
_SHORT, _LETTERS, _PARAMETERS = (_by_member(NAMES[name]) for name in ("words", "letters", "parameters"))
_UNITS, _OF_UNIT = _by_member(NAMES["units"]), _by_member(NAMES["quantity_of_unit"])
_COMMANDED, _ACTUAL, _SHAPES, _SPINDLE = (set(NAMES[name]) for name in ("commanded", "actual", "shapes", "spindle"))
_EVERY_STEM = {stem for _, stems in _STEMS for stem in stems} | set(_SHORT)
_VARIABLE = re.compile(r"machineaxis.*\[\s*u\d+\s*,\s*(\d+)\s*\]\s*\Z", re.IGNORECASE)  # of a Siemens control
_CAPTURED_NAME = re.compile(r"\A\s*([A-Z]+[A-Z0-9_]*)\|(\d+)\s*\Z")
_BRACKETS = re.compile(r"[\[({]\s*([^\])}]*?)\s*[\])}]\s*$")
_IN_OR_OVER = re.compile(r"(?:\s/\s*|\s+in\s+|,\s*)(\S{1,8})$")
_ENDING = re.compile(r"(?<=..)_(mm[_/]min|mm[_/]s|degc|rpm|nm|kw|ms|us|w|a|v|s)\Z", re.IGNORECASE)
_BEGINNING = re.compile(r"\A(kw|nm|rpm|degc)_(?=..)", re.IGNORECASE)
_WORDS = re.compile(r"[A-ZÄÖÜ]+(?=[A-ZÄÖÜ][a-zäöüß])|[A-ZÄÖÜ]?[a-zäöüß]+\d*|[A-ZÄÖÜ]+\d*|\d+")
# Alike to within this correlation, two signals are one physical thing; rows below so many say nothing.
_FOLLOWS, _FEWEST_ROWS = 0.97, 50


@dataclass(frozen=True, slots=True)
class NameReading:
    """The reading of one column name; None where it says nothing. `drive` is spindle, x, y, z or ambient."""

    quantity: str | None
    drive: str | None
    unit: str | None
    commanded: bool
    actual: bool


def read_name(name: str) -> NameReading:
    """Read a column name."""
    if captured := _CAPTURED_NAME.match(name):
        return _captured(*captured.groups())
    bare, unit = split_unit(name)
    words = _WORDS.findall(bare)
    lower = [word.lower() for word in words]
    joined = bare.lower().replace("feedback", "actual")
    drive = _numbered_axis(found[1]) if (found := _VARIABLE.search(name)) else _drive(lower, joined)
    quantity, commanded = _quantity(words, lower, joined)
    if quantity is None and unit is not None:
        quantity = _OF_UNIT.get(unit)
    if quantity == "velocity" or (quantity in ("feed", "rotational speed") and unit is not None):
        quantity = _speed_or_feed(quantity, drive, unit)
    if quantity == "none":
        quantity = None
    if (
        quantity is not None
        and unit is not None
        and not (quantity in QUANTITIES and convertible(unit, QUANTITIES[quantity]))
    ):
        unit = None
    return NameReading(
        quantity,
        drive,
        unit,
        commanded or bool(set(lower) & _COMMANDED) or any(part in joined for part in ("soll", "cmd", "command")),
        bool(set(lower) & _ACTUAL) or joined.endswith("ist"),
    )


def _captured(signal: str, axis: str) -> NameReading:
    """Feed-forward terms, deviations and further encoders are no channels."""
    quantity, unit = NAMES["captured"].get(signal, (None, None))
    drive = _numbered_axis(axis)
    if quantity == "velocity":
        quantity = _speed_or_feed(quantity, drive, unit)
    return NameReading(quantity, drive, unit, signal in ("CMD_SPEED", "DES_POS"), signal == "ENC_POS")


def _numbered_axis(number: str) -> str:
    return str(NAMES["usual_axes"].get(number, f"axis_{number}"))


def split_unit(name: str) -> tuple[str, str | None]:
    """The name without the unit it ends in, and that unit as a unit name."""
    for pattern in (_BRACKETS, _IN_OR_OVER):
        if (match := pattern.search(name)) and (unit := _UNITS.get(match[1].lower())):
            return name[: match.start()], unit
    if match := _ENDING.search(name):
        return name[: match.start()], _UNITS[match[1].lower().replace("_", "/")]
    if match := _BEGINNING.search(name):
        return name[match.end() :], _UNITS[match[1].lower()]
    return name, None


def _quantity(words: list[str], lower: list[str], joined: str) -> tuple[str | None, bool]:
    """The quantity, and whether the very number of a drive parameter says that it is a set-point."""
    if set(lower) & _SHAPES:
        return None, False
    for word in lower:
        if match := re.fullmatch(r"r0*(\d{2})", word):
            return _PARAMETERS.get(match[1]), match[1] in NAMES["commanded_parameters"]
    for quantity, stems in _STEMS:
        if any(stem in joined for stem in stems):
            return quantity, False
    for word in lower:
        if word in _SHORT:
            return _SHORT[word], False
    if any(re.fullmatch(r"[fv][xyz]", word) for word in lower) and set(lower) & (_COMMANDED | _ACTUAL):
        return "feed", False  # Fx alone may be a force
    plain = all(word in _COMMANDED | _ACTUAL or len(word) == 1 for word in lower)
    letters = [word for word in words if word in _LETTERS and (plain or word not in NAMES["words_of_programs"])]
    return (_LETTERS[letters[0]], False) if letters else (None, False)


def _speed_or_feed(quantity: str, drive: str | None, unit: str | None) -> str:
    if unit in _OF_UNIT:
        return _OF_UNIT[unit]
    if quantity == "velocity":
        return "feed" if drive in ("x", "y", "z") else "rotational speed" if drive == "spindle" else "velocity"
    return quantity


def _drive(lower: list[str], joined: str) -> str | None:
    if any(word in joined for word in NAMES["ambient"]) or "amb" in lower:
        return "ambient"
    axes = [axis for axis in "xyz" if any(_means_axis(word, axis) for word in lower)]
    if len(axes) == 1:
        return axes[0]
    if "spind" in joined or set(lower) & _SPINDLE:
        return "spindle"
    return None


def _means_axis(word: str, axis: str) -> bool:
    if word in (axis, f"{axis}1", f"{axis}achse", f"{axis}axis", f"f{axis}", f"v{axis}"):
        return True
    return (word.startswith(axis) and word[1:] in _EVERY_STEM) or (word.endswith(axis) and word[:-1] in _EVERY_STEM)


@dataclass(frozen=True, slots=True, eq=False)
class LoggedSignal:
    """What a source tells of one signal: how its name reads, the unit it states, and values, where there are any."""

    reading: NameReading
    unit: str | None = None
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True)
class ProposedChannel:
    """A signal with its channel, its probable unit, and why; where it is not sure, a person must look."""

    native: str
    channel: str
    quantity: str
    unit: str
    reason: str
    sure: bool = True
    command: bool = False


def signals_of_columns(values: Mapping[str, np.ndarray]) -> dict[str, LoggedSignal]:
    """The columns of a log by their names."""
    return {name: LoggedSignal(read_name(name), values=column) for name, column in values.items()}


def find_columns(signals: Mapping[str, LoggedSignal], drive_named: bool = False) -> list[ProposedChannel]:
    """The signals that are channels of the canonical schema, each channel at most once.

    Without `drive_named`, what names no drive is taken for the spindle's.
    """
    # A column that is zero throughout was not measured.
    signals = {name: s for name, s in signals.items() if not len(s.values) or np.nanmax(np.abs(s.values), initial=0.0)}
    schema = canonical()
    chosen: dict[str, ProposedChannel] = {}
    for name in sorted(signals, key=lambda name: _preference(signals[name].reading)):
        reading = signals[name].reading
        if drive_named and reading.drive is None:
            continue
        channel = _channel(reading, set(chosen))
        if channel is None or channel[0] in chosen:
            continue
        assert reading.quantity is not None
        unit, why, sure = _unit(signals[name])
        reason = "; ".join(part for part in (why, channel[1]) if part)
        chosen[channel[0]] = ProposedChannel(name, channel[0], reading.quantity, unit, reason, sure and not channel[1])
    _mend_link(signals, chosen)
    _find_by_physics(signals, chosen)
    _mend_power(signals, chosen)
    ranks = [*schema.sensor_names, *schema.command_names]
    return sorted(chosen.values(), key=lambda column: ranks.index(column.channel))


def other_channels(signals: Mapping[str, LoggedSignal], taken: Sequence[str]) -> list[ProposedChannel]:
    """Columns of a known quantity that have no canonical channel, such as loads: names for a schema of one's own."""
    channels: dict[str, ProposedChannel] = {}
    for name, signal in signals.items():
        reading = signal.reading
        if name in taken or reading.quantity not in QUANTITIES or reading.quantity in ("position", "override"):
            continue
        unit, why, sure = _unit(signal)
        channel = "_".join(part for part in (reading.drive, reading.quantity.replace(" ", "_")) if part)
        channels.setdefault(channel, ProposedChannel(name, channel, reading.quantity, unit, why, sure))
    return list(channels.values())


def find_path_feed(signals: Mapping[str, LoggedSignal], columns: Sequence[ProposedChannel]) -> ProposedChannel | None:
    """The feed along the path, where the control tells no axis its own; a set-point before what was measured."""
    if any(column.quantity == "feed" for column in columns):
        return None
    readings = {name: signal.reading for name, signal in signals.items()}
    paths = [name for name, reading in readings.items() if reading.quantity == "feed" and reading.drive is None]
    if not paths:
        return None
    name = min(paths, key=lambda path: _preference(readings[path]))
    unit, why, sure = _unit(signals[name])
    guess = "" if readings[name].commanded else "no set-point is named, this may be the actual feed"
    reason = "; ".join(part for part in (why, guess) if part)
    return ProposedChannel(name, PATH, "feed", unit, reason, sure and not guess)


def _preference(reading: NameReading) -> tuple[bool, bool, bool]:
    """Set-points come first for what is commanded, measured values for what is sensed, named drives before others."""
    commanded_kind = facts_of(reading.quantity or "").is_speed
    return (
        not reading.commanded if commanded_kind else reading.commanded,
        reading.drive is None,
        reading.actual and commanded_kind,
    )


def _channel(reading: NameReading, taken: set[str]) -> tuple[str, str] | None:
    """The canonical channel of a name, with a remark where it is a guess."""
    quantity, drive = reading.quantity, reading.drive
    spindle = "" if drive else "no drive is named, taken for the spindle"
    if quantity == "rotational speed" and drive in ("spindle", None):
        actual = "" if reading.commanded else "no set-point is named, this may be the actual speed"
        return "spindle_speed", "; ".join(part for part in (spindle, actual) if part)
    if quantity == "feed" and drive in ("x", "y", "z"):
        return f"feed_{drive}", "" if reading.commanded else "no set-point is named, this may be the actual feed"
    ending = facts_of(quantity or "").ending
    if reading.commanded or ending is None:
        return None
    if quantity == "temperature":
        name = "ambient_temp" if drive == "ambient" else f"{drive}_{ending}"
    else:
        name = f"{drive or 'spindle'}_{ending}"
    if name not in canonical().sensor_names or (drive is None and name in taken):
        return None
    return name, spindle


def _unit(signal: LoggedSignal) -> tuple[str, str, bool]:
    """The unit, why, and whether it is sure."""
    quantity = signal.reading.quantity
    assert quantity is not None
    if signal.unit is not None and convertible(signal.unit, QUANTITIES[quantity]):
        return signal.unit, "the source states the unit", True
    if signal.reading.unit is not None:
        return signal.reading.unit, "its name states the unit", True
    measured = np.abs(signal.values[np.isfinite(signal.values)])
    if not len(signal.values):
        return QUANTITIES[quantity], "no unit is stated, check it", False
    reach = float(np.quantile(measured, 0.99)) if len(measured) else 0.0
    unit, sure = facts_of(quantity).unit_for(reach)
    return unit, f"reaches {significant(reach)}", sure


def _mend_link(signals: Mapping[str, LoggedSignal], chosen: dict[str, ProposedChannel]) -> None:
    """A DC link stands at hundreds of volts: find the column that does, where the one of that name does not."""
    named = chosen.get("spindle_dc_voltage")
    if named is None or not len(signals[named.native].values) or _stands_like_a_link(signals[named.native].values):
        return
    taken = {column.native for column in chosen.values()}
    drive = signals[named.native].reading.drive
    other = [name for name, signal in signals.items() if name not in taken and signal.reading.drive == drive]
    other = [name for name in other if _stands_like_a_link(signals[name].values)]
    if other:
        reason = f"stands like a DC link, and {named.native} does not: two names may be interchanged"
        chosen["spindle_dc_voltage"] = replace(named, native=other[0], reason=reason, sure=False)
    else:
        chosen["spindle_dc_voltage"] = replace(named, reason=f"{named.reason}, unlike a DC link", sure=False)


def _stands_like_a_link(column: np.ndarray) -> bool:
    levels = np.abs(column[np.isfinite(column)])
    if not len(levels):
        return False
    low, middle, high = np.quantile(levels, (0.1, 0.5, 0.9))
    return bool(100.0 <= middle <= 1200.0 and high - low < 0.25 * middle)


def _find_by_physics(signals: Mapping[str, LoggedSignal], chosen: dict[str, ProposedChannel]) -> None:
    """Name columns that say nothing: one that is torque times speed, one that follows the torque."""
    torque, speed = chosen.get("spindle_torque"), chosen.get("spindle_speed")
    if torque is None or speed is None:
        return
    taken = {column.native for column in chosen.values()}
    effort = np.abs(signals[torque.native].values)
    product = effort * np.abs(signals[speed.native].values)
    for name, signal in signals.items():
        if name in taken or signal.reading.quantity is not None:
            continue
        if "spindle_power" not in chosen and _correlation(np.abs(signal.values), product) > _FOLLOWS:
            reason = f"is {torque.native} times {speed.native}"
            chosen["spindle_power"] = ProposedChannel(name, "spindle_power", "power", "kW", reason, sure=False)
        elif "spindle_current" not in chosen and _correlation(np.abs(signal.values), effort) > _FOLLOWS:
            reason = f"follows {torque.native}"
            chosen["spindle_current"] = ProposedChannel(name, "spindle_current", "current", "A", reason, sure=False)


def _mend_power(signals: Mapping[str, LoggedSignal], chosen: dict[str, ProposedChannel]) -> None:
    """Tell watts from kilowatts by torque times speed, where no name states the unit."""
    triple = [chosen.get(f"spindle_{what}") for what in ("power", "torque", "speed")]
    if any(column is None for column in triple):
        return
    power, torque, speed = (column for column in triple if column is not None)
    if "states the unit" in power.reason:
        return
    radians = signals[speed.native].values * conversion(speed.unit, "rad/s").scale
    watts = np.abs(signals[torque.native].values * conversion(torque.unit, "N m").scale * radians)
    logged = np.abs(signals[power.native].values)
    rows = np.isfinite(watts) & np.isfinite(logged) & (logged > 0)
    rows &= watts > 0.05 * float(np.nanmax(watts, initial=0.0))
    if rows.sum() < _FEWEST_ROWS:
        return
    ratio = float(np.median(watts[rows] / logged[rows]))
    unit = "kW" if abs(math.log(ratio / 1000)) < abs(math.log(ratio)) else "W"
    off = ratio / (1000 if unit == "kW" else 1)
    reason = f"torque times speed is {off:.2g} times it in {unit}"
    chosen["spindle_power"] = replace(power, unit=unit, reason=reason, sure=1 / 3 < off < 3)


def _correlation(one: np.ndarray, two: np.ndarray) -> float:
    rows = np.isfinite(one) & np.isfinite(two)
    if rows.sum() < _FEWEST_ROWS or one[rows].std() == 0 or two[rows].std() == 0:
        return 0.0
    return float(np.corrcoef(one[rows], two[rows])[0, 1])
