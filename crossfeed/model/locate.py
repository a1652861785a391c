"""Find the model that a path means: a file, the folder of a run or of an adaptation, or `fleet`, which we ship."""

from importlib.resources import files
from pathlib import Path

from crossfeed.errors import CheckpointError

MODEL, FLEET = "model.safetensors", "fleet"
# What training writes besides the model, and never what somebody means who names the folder.
_BESIDES = ("pretrained.safetensors",)


def locate_model(path: Path | str) -> Path:
    """The model file itself, the only model in a folder, or the shipped model of many machines."""
    path = Path(path)
    if str(path) == FLEET and not path.exists():
        return Path(str(files("crossfeed") / "fleet" / "fleet.safetensors"))
    if not path.is_dir():
        return path
    if (path / MODEL).is_file():
        return path / MODEL
    found = sorted(file for file in path.glob("*.safetensors") if file.name not in _BESIDES)
    if len(found) == 1:
        return found[0]
    raise CheckpointError(
        f"{path} holds {len(found)} models: {', '.join(file.name for file in found)}."
        if found
        else f"There is no model in the folder {path}.",
        expected=f"a model file, or a folder with {MODEL} or one adapted model in it",
        remedy="Name one of the files."
        if found
        else "Check the path, or finish the run with crossfeed train --resume.",
    )
