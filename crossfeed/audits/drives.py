"""Which drive a signal belongs to, told from its name, and which of its signals belong together."""

import numpy as np

from crossfeed.audits.names import words_of
from crossfeed.audits.subject import Role, Signal, Subject

_DRIVES = {
    "spindle": {"spindle", "sp", "sp1", "s1", "s"},
    "x": {"x", "x1"},
    "y": {"y", "y1"},
    "z": {"z", "z1"},
}
AXES = ("x", "y", "z")
_BUS = {"dc", "bus", "dcbus", "link", "intermediate", "circuit"}


def drive_of(signal: Signal) -> str | None:
    """`spindle`, `x`, `y` or `z`, or None when the name says nothing."""
    words = words_of(signal.name)
    found = [drive for drive, names in _DRIVES.items() if words & names]
    return found[0] if len(found) == 1 else None


def is_bus(signal: Signal) -> bool:
    """Whether a voltage is that of the DC link rather than of the motor."""
    return signal.quantity == "voltage" and bool(words_of(signal.name) & _BUS)


def signals_of(subject: Subject, drive: str, quantity: str, role: Role | None = None) -> list[Signal]:
    """The measured signals of one drive and quantity."""
    return [signal for signal in subject.of(quantity, role) if drive_of(signal) == drive]


def command_of(subject: Subject, drive: str) -> Signal | None:
    """The set-point that moves a drive: spindle speed, or the feed of the axis."""
    quantity = "rotational speed" if drive == "spindle" else "feed"
    found = signals_of(subject, drive, quantity, "command")
    return found[0] if found else None


def inside_groups(subject: Subject, rows: int) -> np.ndarray:
    """For each pair of neighbouring rows, whether both lie in one group."""
    inside = np.ones(rows - 1, dtype=bool)
    inside[[group.stop - 1 for group in subject.groups[:-1]]] = False
    return inside
