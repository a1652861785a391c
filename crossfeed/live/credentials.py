"""Secrets come from a file or the environment, never from the command line, which everybody may read."""

import os
from dataclasses import dataclass
from pathlib import Path

import yaml

from crossfeed.errors import ConfigError

USER, PASSWORD = "CROSSFEED_LIVE_USER", "CROSSFEED_LIVE_PASSWORD"


@dataclass(frozen=True)
class Credentials:
    """A user and a password that no message ever shows."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r})"


def read_credentials(path: Path | None) -> Credentials | None:
    """From a YAML file with `user` and `password` that only its owner may read, or from the environment, or none."""
    if path is None:
        user, password = os.environ.get(USER), os.environ.get(PASSWORD)
        if (user is None) != (password is None):
            raise ConfigError(f"Only one of {USER} and {PASSWORD} is set.", expected="both, or none")
        return Credentials(user, password) if user is not None and password is not None else None
    try:
        open_to_others = path.stat().st_mode & 0o077
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:  # what YAML says quotes the file, so perhaps the password
        raise ConfigError(f"The credentials {path} cannot be read.", expected="a YAML file") from error
    if open_to_others:
        raise ConfigError(f"Others may read the credentials {path}.", remedy=f"chmod 600 {path}")
    if not isinstance(content, dict) or set(content) != {"user", "password"}:
        raise ConfigError(f"{path} does not hold credentials.", expected="'user' and 'password', nothing else")
    return Credentials(str(content["user"]), str(content["password"]))
