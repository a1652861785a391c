"""The folder of one run: what is in it, whose run it is, which process works there, whether a resume may go on."""

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crossfeed.errors import ConfigError, TrainingError
from crossfeed.files import HeldElsewhereError, atomic_file, claim, locked, read_claim

IDENTITY = "run.json"
LOCK = ".lock"
HOLDER = ".lock-holder"


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


@contextmanager
def sole_process(folder: Path) -> Iterator[None]:
    """Be the only process that works in a folder for the length of the block, or say which one does.

    The system lets go of the lock when the process dies.
    """
    if folder.exists() and not folder.is_dir():
        yield  # whoever opens the folder will say so
        return
    holder = folder / HOLDER
    try:
        with locked(folder / LOCK, wait=False):
            with suppress(OSError):  # a full disk: the lock holds without a name beside it
                holder.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
    except HeldElsewhereError:
        name = holder.read_text(encoding="utf-8") if holder.exists() else "another process"
        raise TrainingError(
            f"A run is under way in {folder}, by {name}.",
            expected="one process to a run",
            remedy="Wait for it, stop it, or choose another folder.",
        ) from None


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
