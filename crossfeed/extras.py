"""Packages of the extras, imported where they are asked for."""

from importlib import import_module
from typing import Any

from crossfeed.errors import ConfigError


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
