"""Packages of the extra `live`, imported when a protocol is asked for."""

from importlib import import_module
from typing import Any

from crossfeed.errors import ConfigError


def need(module: str, what: str) -> Any:
    """Import a module of the extra, or say which one to install."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{what} needs the package {module.partition('.')[0]}, which is not installed.",
            expected="crossfeed with its extra 'live'",
            remedy="pip install 'crossfeed[live]'",
        ) from error
