"""Candidates: named functions of a configuration, or the names and settings of a YAML file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from crossfeed.configuration import leaves, override
from crossfeed.errors import ConfigError
from crossfeed.training.run_config import RunConfig

Candidate = Callable[[RunConfig], RunConfig]


def named(candidates: Iterable[Candidate], base: RunConfig) -> dict[str, RunConfig]:
    """Each candidate's complete configuration under its name."""
    found: dict[str, RunConfig] = {}
    for candidate in candidates:
        name = candidate.__name__
        if name in found:
            raise ConfigError(f"Two candidates are named '{name}'.", remedy="Give every candidate a name of its own.")
        found[name] = candidate(base)
    return found


def from_yaml(path: Path, base: RunConfig) -> dict[str, RunConfig]:
    """A user's candidates: a mapping of names to dotted (or nested) settings that differ from the preset."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _NoDuplicates)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"The candidate file {path} cannot be read: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(value, dict | None) for value in content.values()):
        raise ConfigError(
            f"The candidate file {path} is no mapping of names to settings.",
            expected="for example 'slow_teacher: {training.ema_momentum: 0.9995}'",
        )
    return {
        str(name): override(base, leaves(settings or {}), f"Candidate '{name}' in {path}")
        for name, settings in content.items()
    }


def some(every: Mapping[str, RunConfig], only: Sequence[str] | None = None) -> dict[str, RunConfig]:
    """Some of these candidates, by name; all of them where nothing is named."""
    unknown = sorted(set(only or ()) - every.keys())
    if unknown:
        raise ConfigError(f"There is no candidate {', '.join(unknown)}.", expected=f"some of {', '.join(every)}")
    return {name: config for name, config in every.items() if not only or name in only}


class _NoDuplicates(yaml.SafeLoader):
    """YAML that refuses a name given twice instead of keeping the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=deep) for key, _ in node.value]
        doubled = sorted({str(name) for name in names if names.count(name) > 1})
        if doubled:
            raise yaml.YAMLError(f"these names stand twice: {', '.join(doubled)}")
        return super().construct_mapping(node, deep=deep)
