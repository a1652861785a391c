"""What the name of a logged column says: quantity, drive, unit, whether it was commanded.

English and German words, the letters of formulas (I, M, P, n, v, T), parameter numbers of Siemens drives and their axes
in variables of the control, and the habits of Heidenhain, Fanuc and Fagor loggers.
"""

import re
from dataclasses import dataclass

from crossfeed.schema import QUANTITIES, convertible

# The first row with a matching part wins: "current feedrate" is a feed, "Drehmoment" no "moment" of time.
_STEMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "none",
        ("program", "number", "nummer", "index", "counter", "zähler", "sequence", "zeile", "satz", "werkzeug", "tool"),
    ),
    ("none", ("duration", "einschaltdauer")),
    ("modulation depth", ("aussteuer", "modulation")),
    ("override", ("override", "ovr", "korrektur")),
    ("feed", ("vorschub", "feedrate", "feed", "frt", "actf")),
    ("position", ("position", "lage")),
    ("acceleration", ("accel", "beschleunig")),
    ("voltage", ("spannung", "voltage", "dcbus", "dclink", "zwischenkreis")),
    ("power", ("leistung", "power", "wattage")),
    ("torque", ("drehmoment", "torque", "moment")),
    ("temperature", ("temp", "wärme")),
    ("load", ("load", "auslastung", "belastung", "utiliz", "utilis")),
    ("vibration", ("vibration", "schwing")),
    ("pressure", ("druck", "pressure")),
    ("energy", ("energie", "energy")),
    ("current", ("strom", "current", "ampere", "amperage")),
    ("rotational speed", ("drehzahl", "rpm", "acts")),
    ("velocity", ("velocity", "geschwindigkeit", "speed")),
)
_SHORT = {
    "curr": "current", "cur": "current", "amps": "current", "trq": "torque", "pwr": "power", "watt": "power",
    "pos": "position", "abs": "position", "rpm": "rotational speed", "last": "load", "volt": "voltage",
    "deg": "position", "dc": "voltage", "mod": "modulation depth", "smc": "current", "irms": "current",
    "urms": "voltage", "vrms": "voltage", "sact": "rotational speed", "sist": "rotational speed",
    "ssoll": "rotational speed", "sreal": "rotational speed", "fact": "feed", "fist": "feed", "fsoll": "feed",
    "freal": "feed",
}  # fmt: skip
_LETTERS = {
    "I": "current", "M": "torque", "P": "power", "U": "voltage", "T": "temperature", "n": "rotational speed",
    "N": "rotational speed", "v": "velocity", "F": "feed", "S": "rotational speed",
}  # fmt: skip
_WORDS_OF_PROGRAMS = ("F", "S")  # F alone may be a force and S the spindle
_SHAPES = {"kurt", "kurtosis", "sk", "skew", "skewness", "std", "var", "variance", "crest"}  # what no signal is
_PARAMETERS = {
    "21": "rotational speed", "26": "voltage", "27": "current", "28": "modulation depth", "31": "torque", "32": "power",
    "35": "temperature", "60": "rotational speed", "62": "rotational speed", "63": "rotational speed", "68": "current",
    "70": "voltage", "74": "modulation depth", "78": "current", "79": "torque", "80": "torque", "82": "power",
}  # fmt: skip
_COMMANDED_PARAMETERS = ("60", "62")
_COMMANDED = {
    "soll", "sollwert", "set", "setpoint", "cmd", "command", "commanded", "nominal", "nom", "noml", "target", "vorgabe",
    "programmed", "prog",
}  # fmt: skip
_ACTUAL = {
    "ist", "act", "actual", "feedback", "fb", "istwert", "measured", "gemessen", "sact", "sist", "sreal", "fact",
    "fist", "freal",
}  # fmt: skip
# Signals of a Siemens Edge capture are called SIGNAL|number of the axis.
_CAPTURED = {
    "CURRENT": ("current", None), "TORQUE": ("torque", None), "POWER": ("power", "W"), "LOAD": ("load", None),
    "CMD_SPEED": ("velocity", None), "DES_POS": ("position", None), "ENC_POS": ("position", None),
}  # fmt: skip
_USUAL_AXES = {"1": "x", "2": "y", "3": "z", "6": "spindle"}
_VARIABLE = re.compile(r"machineaxis.*\[\s*u\d+\s*,\s*(\d+)\s*\]\s*\Z", re.IGNORECASE)  # of a Siemens control
_CAPTURED_NAME = re.compile(r"\A\s*([A-Z]+[A-Z0-9_]*)\|(\d+)\s*\Z")
_SPINDLE = {"spindle", "spindel", "spdl", "sp", "sp1", "s1", "s", "spn", "hauptspindel", "main", "smc"}
_AMBIENT = ("umgebung", "ambient", "raum", "halle", "room", "general")
_SPELLINGS = {
    "A": ("a", "ampere"), "mA": ("ma",), "N m": ("nm", "n*m", "n·m", "n m"), "W": ("w", "watt"), "kW": ("kw",),
    "V": ("v", "volt"), "degC": ("°c", "c", "degc", "grad c", "grdc", "celsius"), "degF": ("°f",), "kelvin": ("k",),
    "rpm": ("u/min", "1/min", "min-1", "min^-1", "upm", "rpm", "/min"), "revolution/s": ("u/s", "1/s", "rps"),
    "deg/s": ("°/s", "grad/s", "deg/s"), "mm/min": ("mm/min", "mmpm"), "mm/s": ("mm/s",), "m/min": ("m/min",),
    "m/s": ("m/s",), "%": ("%", "percent", "prozent"), "mm": ("mm",), "s": ("s",), "ms": ("ms",), "us": ("us", "µs"),
    "min": ("min",),
}  # fmt: skip
_UNITS = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}
_OF_UNIT = {
    "A": "current", "mA": "current", "N m": "torque", "W": "power", "kW": "power", "V": "voltage",
    "degC": "temperature", "degF": "temperature", "rpm": "rotational speed", "revolution/s": "rotational speed",
    "mm/min": "feed", "mm/s": "feed", "m/min": "feed", "mm": "position",
}  # fmt: skip
_BRACKETS = re.compile(r"[\[({]\s*([^\])}]*?)\s*[\])}]\s*$")
_IN_OR_OVER = re.compile(r"(?:\s/\s*|\s+in\s+|,\s*)(\S{1,8})$")
_ENDING = re.compile(r"(?<=..)_(mm[_/]min|mm[_/]s|degc|rpm|nm|kw|ms|us|w|a|v|s)\Z", re.IGNORECASE)
_BEGINNING = re.compile(r"\A(kw|nm|rpm|degc)_(?=..)", re.IGNORECASE)
_WORDS = re.compile(r"[A-ZÄÖÜ]+(?=[A-ZÄÖÜ][a-zäöüß])|[A-ZÄÖÜ]?[a-zäöüß]+\d*|[A-ZÄÖÜ]+\d*|\d+")


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
    told = set(lower)
    return NameReading(
        quantity,
        drive,
        unit,
        commanded or bool(told & _COMMANDED) or any(part in joined for part in ("soll", "cmd", "command")),
        bool(told & _ACTUAL) or joined.endswith("ist"),
    )


def _captured(signal: str, axis: str) -> NameReading:
    """Feed-forward terms, deviations and further encoders are no channels."""
    quantity, unit = _CAPTURED.get(signal, (None, None))
    drive = _numbered_axis(axis)
    if quantity == "velocity":
        quantity = _speed_or_feed(quantity, drive, unit)
    return NameReading(quantity, drive, unit, signal in ("CMD_SPEED", "DES_POS"), signal == "ENC_POS")


def _numbered_axis(number: str) -> str:
    return _USUAL_AXES.get(number, f"axis_{number}")


def split_unit(name: str) -> tuple[str, str | None]:
    """The name without the unit it ends in, and that unit as a unit name."""
    for pattern in (_BRACKETS, _IN_OR_OVER):
        if (found := pattern.search(name)) and (unit := _UNITS.get(found[1].lower())):
            return name[: found.start()], unit
    if found := _ENDING.search(name):
        return name[: found.start()], _UNITS[found[1].lower().replace("_", "/")]
    if found := _BEGINNING.search(name):
        return name[found.end() :], _UNITS[found[1].lower()]
    return name, None


def _quantity(words: list[str], lower: list[str], joined: str) -> tuple[str | None, bool]:
    """The quantity, and whether the very number of a drive parameter says that it is a set-point."""
    if set(lower) & _SHAPES:
        return None, False
    for word in lower:
        if found := re.fullmatch(r"r0*(\d{2})", word):
            return _PARAMETERS.get(found[1]), found[1] in _COMMANDED_PARAMETERS
    for quantity, stems in _STEMS:
        if any(stem in joined for stem in stems):
            return quantity, False
    for word in lower:
        if word in _SHORT:
            return _SHORT[word], False
    if any(re.fullmatch(r"[fv][xyz]", word) for word in lower) and set(lower) & (_COMMANDED | _ACTUAL):
        return "feed", False  # Fx alone may be a force
    plain = all(word in _COMMANDED | _ACTUAL or len(word) == 1 for word in lower)
    letters = [word for word in words if word in _LETTERS and (plain or word not in _WORDS_OF_PROGRAMS)]
    return (_LETTERS[letters[0]], False) if letters else (None, False)


def _speed_or_feed(quantity: str, drive: str | None, unit: str | None) -> str:
    if unit in _OF_UNIT:
        return _OF_UNIT[unit]
    if quantity == "velocity":
        return "feed" if drive in ("x", "y", "z") else "rotational speed" if drive == "spindle" else "velocity"
    return quantity


def _drive(lower: list[str], joined: str) -> str | None:
    if any(word in joined for word in _AMBIENT) or "amb" in lower:
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
    stems = {stem for _, some in _STEMS for stem in some} | set(_SHORT)
    return (word.startswith(axis) and word[1:] in stems) or (word.endswith(axis) and word[:-1] in stems)
