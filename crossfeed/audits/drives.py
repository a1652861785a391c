"""Which drive a signal belongs to, told from its name, and which of its signals belong together."""

import numpy as np

from crossfeed.audits.subject import Role, Signal, Subject
from crossfeed.machines.column_names import read_name

AXES = ("x", "y", "z")
_BUS = ("dc", "bus", "link", "intermediate", "circuit", "zwischenkreis")


def drive_of(signal: Signal) -> str | None:
    """`spindle`, `x`, `y` or `z`, or None when the name says nothing."""
    drive = read_name(signal.name).drive
    return drive if drive != "ambient" else None


def is_bus(signal: Signal) -> bool:
    """Whether a voltage is that of the DC link rather than of the motor."""
    return signal.quantity == "voltage" and any(part in signal.name.lower() for part in _BUS)


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
