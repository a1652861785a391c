"""The kinds of log that crossfeed knows by name; each is imported only when it is asked for."""

import difflib
from importlib import import_module
from pathlib import Path

from crossfeed.errors import ConfigError, LogError
from crossfeed.machines.declaration import LogFormat

NAMES = ("thws", "joanneum", "michigan", "mtconnect")


def log_format_named(name: str, mapping: Path | None = None) -> LogFormat:
    """The kind of log with this name; `table` is described by a mapping, and `mtconnect` can be."""
    if name == "table":
        from crossfeed.machines.table import mapped_format

        if mapping is None:
            raise ConfigError(
                "Logs of the kind 'table' need a mapping.",
                expected="--mapping FILE.yaml",
                remedy="Have one written from the logs: `crossfeed data template --from LOGS > mapping.yaml`.",
            )
        return mapped_format(mapping)
    if name == "mtconnect" and mapping is not None:
        from crossfeed.machines.mtconnect import mapped_device

        return mapped_device(mapping)
    if mapping is not None:
        raise ConfigError(f"Logs of the kind '{name}' describe themselves.", expected="no mapping, or the kind 'table'")
    if name not in NAMES:
        near = difflib.get_close_matches(name.lower(), (*NAMES, "table"), n=1)
        raise LogError(
            f"There is no kind of log named '{name}'" + (f"; did you mean '{near[0]}'?" if near else "."),
            expected=f"one of {', '.join(NAMES)}, table",
        )
    log_format: LogFormat = import_module(f"crossfeed.machines.{name}").LOG_FORMAT
    return log_format
