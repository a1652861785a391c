"""The kinds of log that are known by name, and how further ones register themselves.

A kind registers itself when its module is imported: `register_log_format(LogFormat(...))`. Packages of users name their
module as an entry point of the group `crossfeed.log_formats`; what ours are is written in log_formats.yaml.
"""

import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from crossfeed.configuration import load_yaml
from crossfeed.errors import ConfigError, CrossfeedError, LogError
from crossfeed.logs.declaration import Download, LogFormat, NativeColumn, Segmentation
from crossfeed.logs.files import find_files
from crossfeed.schema import Schema, canonical

_FACTS: dict[str, Any] = load_yaml(Path(__file__).with_suffix(".yaml"), "The kinds of log")
_REGISTERED: dict[str, LogFormat] = {}


def described(name: str, **behaviour: Any) -> LogFormat:
    """The kind of log that log_formats.yaml describes under this name, with the functions that read it."""
    facts = _FACTS[name]
    columns = [{"native": native, **meaning} for native, meaning in facts["columns"].items()]
    written = {
        "schema": Schema.from_mapping(facts["schema"]) if "schema" in facts else canonical(),
        "columns": TypeAdapter(tuple[NativeColumn, ...]).validate_python(columns),
        "segmentation": TypeAdapter(Segmentation).validate_python(facts.get("segmentation", {})),
        "downloads": TypeAdapter(tuple[Download, ...]).validate_python(facts.get("downloads", ())),
    }
    return LogFormat(name=name, **(facts | written), **behaviour)


def register_log_format(log_format: LogFormat) -> None:
    """Make a kind of log known by its name, to `crossfeed ingest NAME` and to everything else that names kinds."""
    if log_format.name == "table" or _REGISTERED.get(log_format.name, log_format).title != log_format.title:
        raise ConfigError(
            f"There is a kind of log named '{log_format.name}' already.", expected="a name that is not taken"
        )
    _REGISTERED[log_format.name] = log_format


def log_formats() -> dict[str, LogFormat]:
    """Every kind of log by its name, ours first."""
    _load()
    return {name: _REGISTERED[name] for name in (*_FACTS, *(name for name in _REGISTERED if name not in _FACTS))}


@cache
def _load() -> None:
    """Import the modules in which kinds register themselves."""
    for name in ("data_sets", "mtconnect"):
        import_module(f"crossfeed.logs.{name}")
    for point in entry_points(group="crossfeed.log_formats"):
        point.load()


def log_format_named(name: str, mapping: Path | None = None) -> LogFormat:
    """The kind of log with this name; `table` is described by a mapping, and `mtconnect` can be."""
    if name == "table":
        from crossfeed.logs.mapped_logs import mapped_format

        if mapping is None:
            raise ConfigError(
                "Logs of the kind 'table' need a mapping.",
                expected="--mapping FILE.yaml",
                remedy="Have one written from the logs: `crossfeed data template --from LOGS > mapping.yaml`.",
            )
        return mapped_format(mapping)
    if name == "mtconnect" and mapping is not None:
        from crossfeed.logs.mtconnect import mapped_device

        return mapped_device(mapping)
    if mapping is not None:
        raise ConfigError(f"Logs of the kind '{name}' describe themselves.", expected="no mapping, or the kind 'table'")
    by_name = log_formats()
    if name not in by_name:
        near = difflib.get_close_matches(name.lower(), (*by_name, "table"), n=1)
        raise LogError(
            f"There is no kind of log named '{name}'" + (f"; did you mean '{near[0]}'?" if near else "."),
            expected=f"one of {', '.join(by_name)}, table",
        )
    return by_name[name]


def detect_log_format(path: Path) -> LogFormat | None:
    """The kind of the logs at a path: the one that says so, or the one whose columns the first file has."""
    return next((log_format for log_format in log_formats().values() if _is_of(log_format, path)), None)


def _is_of(log_format: LogFormat, path: Path) -> bool:
    from crossfeed.logs.delimited import sniff

    try:
        if log_format.detect is not None:
            return log_format.detect(path)
        files = find_files(path, ["*.csv", "*.txt"])
        header = {name.strip().lower() for name in sniff(files[0]).header} if files else set()
    except CrossfeedError:
        return False
    return {column.native.strip().lower() for column in log_format.columns if column.constant is None} <= header
