"""The one exception family: every message says what was found, what was expected, and what to do."""

from importlib import import_module
from typing import Any


class CrossfeedError(Exception):
    """A problem the user can act on; the command line prints it without a traceback."""

    def __init__(self, found: str, expected: str = "", remedy: str = "") -> None:
        self.found, self.expected, self.remedy = found, expected, remedy
        super().__init__(found, expected, remedy)  # all that crosses a process boundary

    def __str__(self) -> str:
        parts = [self.found]
        if self.expected:
            parts.append(f"Expected: {self.expected}")
        if self.remedy:
            parts.append(f"To do: {self.remedy}")
        return "\n".join(parts)


class SchemaError(CrossfeedError):
    """A channel, quantity or unit that does not fit."""


class ProgramError(CrossfeedError):
    """NC code that cannot be read or planned."""


class MachineError(CrossfeedError):
    """Impossible parameters of a simulated machine, or a rollout it cannot do."""


class LogError(CrossfeedError):
    """Raw controller logs that are missing, damaged or not what they claim to be."""


class TableError(CrossfeedError):
    """A canonical table that is unreadable, inconsistent or too small for what is asked of it."""


class ConfigError(CrossfeedError):
    """A configuration that contradicts itself or names something that does not exist."""


class CheckpointError(CrossfeedError):
    """A model file or training state that does not fit or was changed."""


class TrainingError(CrossfeedError):
    """Training that cannot go on, such as a loss that is no longer a number."""


class ForecastError(CrossfeedError):
    """A forecast that is no number, or one that cannot be asked for."""


class StorageError(CrossfeedError):
    """A file that could not be written or read: disk full, no permission, vanished."""


def need(module: str, what: str, extra: str) -> Any:
    """Import a module of an extra, or say which one to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{what} needs the package {module.partition('.')[0]}, which is not installed.",
            expected=f"crossfeed with its extra '{extra}'",
            remedy=f"pip install 'crossfeed[{extra}]'",
        ) from error
