"""Find the model that a path means: a file, the folder of a training run, or the folder of an adaptation."""

from pathlib import Path

from crossfeed.errors import CheckpointError

MODEL = "model.safetensors"
# What training writes besides the model, and never what somebody means who names the folder.
_BESIDES = ("pretrained.safetensors",)


def locate_model(path: Path | str) -> Path:
    """The model file itself, or the only model in a folder."""
    path = Path(path)
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
