"""The folder of one run: what is in it, whose run it is, and whether a resume may go on there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crossfeed.atomic import atomic_file
from crossfeed.claim import claim, read_claim
from crossfeed.errors import ConfigError

IDENTITY = "run.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where the files of a run lie; make one with `open_folder`."""

    path: Path

    @property
    def model(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def pretrained(self) -> Path:
        return self.path / "pretrained.safetensors"

    @property
    def history(self) -> Path:
        return self.path / "history.parquet"

    @property
    def summary(self) -> Path:
        return self.path / "summary.json"

    @property
    def finished(self) -> bool:
        """The summary is the last file a run writes."""
        return self.summary.exists()


def open_folder(path: Path | str, config: Mapping[str, Any], inputs: Mapping[str, Any], resume: bool) -> RunFolder:
    """Claim a folder for a run of this configuration on these inputs, or find an earlier part of the same run in it."""
    folder = RunFolder(Path(path))
    if not resume and (folder.path / IDENTITY).exists():
        raise ConfigError(
            f"{folder.path} already holds a run.",
            remedy="Add --resume (resume=True) to go on with it, or choose another folder.",
        )
    claim(folder.path, IDENTITY, {"config": config, "inputs": inputs}, "a run")
    for leftover in folder.path.glob(".*.partial"):
        leftover.unlink()
    with atomic_file(folder.path / "config.yaml") as temporary:
        temporary.write_text(yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True), encoding="utf-8")
    return folder


def saved_config(path: Path | str) -> dict[str, Any] | None:
    """The configuration of the run in this folder, if there is one."""
    identity = Path(path) / IDENTITY
    if not identity.exists():
        return None
    try:
        return dict(read_claim(identity)["config"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{identity} holds no configuration.", remedy="Start the run again in another folder."
        ) from error
