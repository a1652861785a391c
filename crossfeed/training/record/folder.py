"""The folder of one run: what is in it, whose run it is, and whether a resume may go on there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crossfeed.atomic import atomic_file
from crossfeed.errors import ConfigError
from crossfeed.training.overrides import leaves

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
    identity = folder.path / IDENTITY
    if identity.exists():
        if not resume:
            raise ConfigError(
                f"{folder.path} already holds a run.",
                remedy="Add --resume (resume=True) to go on with it, or choose another folder.",
            )
        _same_run(identity, {"config": dict(config), "inputs": dict(inputs)})
    elif folder.path.exists() and (not folder.path.is_dir() or _visible(folder.path)):
        raise ConfigError(
            f"{folder.path} exists and is not the folder of a run.", remedy="Choose a new or an empty folder."
        )
    else:
        write_json(identity, {"config": config, "inputs": inputs})
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
    content: dict[str, Any] = _read_identity(identity)["config"]
    return content


def write_json(path: Path, content: object) -> None:
    """Write readable JSON, whole or not at all."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _same_run(identity: Path, wanted: dict[str, Any]) -> None:
    found, asked = leaves(_read_identity(identity)), leaves(json.loads(json.dumps(wanted)))
    different = [name for name in sorted(found | asked) if found.get(name) != asked.get(name)]
    if different:
        listed = "; ".join(f"{_plain(name)}: {found.get(name)} there, {asked.get(name)} asked" for name in different)
        raise ConfigError(
            f"The run in {identity.parent} is not the one asked for. {listed}.",
            remedy="Resume with the same configuration and tables, or choose another folder.",
        )


def _plain(name: str) -> str:
    return name.removeprefix("config.")


def _read_identity(identity: Path) -> dict[str, Any]:
    try:
        content = json.loads(identity.read_text(encoding="utf-8"))
        return {"config": dict(content["config"]), "inputs": dict(content["inputs"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{identity} cannot be read: {error!r}.", remedy="Start the run again in another folder."
        ) from error


def _visible(path: Path) -> list[Path]:
    return [entry for entry in path.iterdir() if not entry.name.startswith(".")]
