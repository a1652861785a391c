"""Configurations from files and by name: `--set training.batch_size=64`, YAML, readable errors, what differs."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from crossfeed.errors import ConfigError, CrossfeedError, StorageError

if TYPE_CHECKING:
    from yaml import SafeLoader

Config = TypeVar("Config", bound=BaseModel)
Form = TypeVar("Form")


class CheckedForm(BaseModel):
    """What users may fill in: unknown keys, NaN and infinity are refused, and nothing changes afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def problems(error: ValidationError, whole: str = "the configuration", most: int | None = None) -> str:
    """What pydantic found wrong, each with its dotted name; `whole` names what concerns no single value.

    `most` is how many are told, where one mistake spoils many values.
    """
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or whole}: {one['msg'].removeprefix('Value error, ')}"
        f"{_value(one['input'])}"
        for one in error.errors()[:most]
    )


def parse(form: type[Config], content: Any, origin: str) -> Config:
    """Build a configuration from parsed JSON or YAML; what is wrong becomes one readable ConfigError."""
    try:
        return form.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{origin} is not a valid configuration: {problems(error)}.") from error


def recorded(form: type[Form], content: Any, origin: str, what: str, commands: str, remedy: str) -> Form:
    """A result read back from what some command wrote; content that is none is refused with its first mistake."""
    try:
        return TypeAdapter(form).validate_python(content)
    except ValidationError as error:
        raise StorageError(
            f"{origin} does not hold what {what} records: {problems(error, 'the content', most=1)}.",
            expected=f"what {commands} wrote",
            remedy=remedy,
        ) from error


def leaves(config: BaseModel | Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value of a configuration under its dotted name."""
    content = config.model_dump(mode="json") if isinstance(config, BaseModel) else config
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            flat |= leaves(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def override(config: Config, changes: Mapping[str, Any], origin: str = "--set") -> Config:
    """The configuration with some dotted names changed; unknown names and impossible values are explained."""
    known = leaves(config)
    content = config.model_dump(mode="json")
    for name, value in changes.items():
        if name not in known:
            raise ConfigError(f"{origin} names '{name}', which does not exist.", remedy=_suggestion(name, known))
        *parents, last = name.split(".")
        branch = content
        for parent in parents:
            branch = branch[parent]
        branch[last] = value
    try:
        return type(config).model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{origin} gives an impossible configuration: {problems(error)}.") from error


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Read `name=value` texts; values are written as in YAML (numbers, true, null, [1, 2])."""
    import yaml

    changes = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--set got '{text}'.", expected="name=value, such as training.batch_size=64")
        try:
            changes[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set cannot read the value in '{text}'.", expected="a YAML value") from error
    return changes


def load_yaml(
    path: Path | str,
    what: str,
    problem: type[CrossfeedError] = ConfigError,
    *,
    loader: type["SafeLoader"] | None = None,
) -> Any:
    """What a YAML file of a user holds; `what` it is says the error when it cannot be read.

    `loader` may refuse more than YAML does, by raising a YAMLError.
    """
    import yaml

    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), loader or yaml.SafeLoader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise problem(f"{what} {path} cannot be read: {error}", expected="a YAML text file") from error


def read_yaml(path: Path | str) -> dict[str, Any]:
    """The dotted names and values of a YAML file of overrides (or of a complete saved configuration)."""
    content = load_yaml(path, "The configuration file")
    if not isinstance(content, Mapping):
        raise ConfigError(
            f"The configuration file {path} holds no names and values.",
            expected="lines such as 'training:' followed by '  batch_size: 64'",
        )
    return leaves({str(key): value for key, value in content.items()})


def differences(
    first: BaseModel | Mapping[str, Any], second: BaseModel | Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """The dotted names on which two configurations disagree, with both values; None where one has no such name."""
    one, two = leaves(first), leaves(second)
    return {name: (one.get(name), two.get(name)) for name in sorted(one | two) if one.get(name) != two.get(name)}


def _suggestion(name: str, known: Mapping[str, Any]) -> str:
    last = name.rpartition(".")[2]
    by_last = {path: path.rpartition(".")[2] for path in known}
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    near += [path for path, end in by_last.items() if difflib.get_close_matches(last, [end], cutoff=0.75)]
    if near:
        return f"Did you mean {' or '.join(dict.fromkeys(near[:3]))}?"
    return f"Known names begin with {', '.join(dict.fromkeys(path.partition('.')[0] for path in known))}."


def _value(found: Any) -> str:
    return f" (found {found})" if isinstance(found, int | float | str) else ""
