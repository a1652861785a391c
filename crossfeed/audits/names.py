"""What a foreign column probably measures, told from its name alone."""

import re
from typing import NamedTuple

from crossfeed.audits.subject import Role
from crossfeed.schema import QUANTITIES, canonical

# The first row with a matching word wins: "CURRENT_FEEDRATE" is a feed, "CURRENT_PROGRAM_NUMBER" no electric current.
_WORDS: tuple[tuple[str | None, set[str]], ...] = (
    (
        None,
        {
            "program",
            "number",
            "sequence",
            "line",
            "index",
            "id",
            "count",
            "counter",
            "status",
            "cycle",
            "block",
            "inertia",
            "label",
        },
    ),
    ("feed", {"feed", "feedrate", "vorschub"}),
    ("override", {"override"}),
    ("position", {"position", "pos"}),
    ("acceleration", {"acceleration", "accel"}),
    ("voltage", {"voltage", "volt", "spannung", "dcbus"}),
    ("power", {"power", "leistung"}),
    ("torque", {"torque", "moment", "drehmoment"}),
    ("temperature", {"temperature", "temp", "temperatur"}),
    ("modulation depth", {"modulation"}),
    ("load", {"load", "last"}),
    ("pressure", {"pressure", "druck"}),
    ("vibration", {"vibration"}),
    ("energy", {"energy"}),
    ("current", {"current", "strom", "amps", "ampere"}),
    ("rotational speed", {"rpm", "speed", "drehzahl"}),
    ("feed", {"velocity"}),
)
_COMMAND = {"command", "commanded", "cmd", "setpoint", "set", "target", "soll"}
_SPINDLE = {"spindle", "sp", "s1", "sp1"}
_AXES = {"x", "y", "z", "x1", "y1", "z1", "axis", "feed", "feedrate"}
_SPLIT = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*|\d+")


def words_of(name: str) -> set[str]:
    """The words of a column name in lower case: X1_DCBusVoltage gives x1, dc, bus and voltage."""
    return {word.lower() for word in _SPLIT.findall(name)}


class NameMeaning(NamedTuple):
    """What a column measures; `declared` when the name is canonical, otherwise quantity and unit are guesses."""

    quantity: str | None
    unit: str | None
    role: Role
    declared: bool


def guess(name: str) -> NameMeaning:
    """What a column probably measures, in the usual unit of its quantity."""
    schema = canonical()
    if name in (*schema.sensor_names, *schema.command_names):
        channel = schema.channel(name)
        role: Role = "sensor" if name in schema.sensor_names else "command"
        return NameMeaning(channel.quantity, channel.unit, role, declared=True)
    words = words_of(name)
    for quantity, keywords in _WORDS:
        if words & keywords:
            if quantity is None:
                break
            if quantity in ("feed", "rotational speed"):
                quantity = "rotational speed" if words & _SPINDLE or not words & _AXES else "feed"
            return NameMeaning(
                quantity, QUANTITIES[quantity], "command" if words & _COMMAND else "sensor", declared=False
            )
    return NameMeaning(None, None, "other", declared=False)
