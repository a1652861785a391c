"""Clones of the official PatchTST, iTransformer and SimMTM repositories: found, checked and imported, one at a time.

Nothing of their code is part of crossfeed: the user points to a clone, which is checked before anything is imported.
"""

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from crossfeed.errors import ConfigError

SIMMTM = "official-simmtm"


@dataclass(frozen=True, slots=True)
class Repository:
    """What a clone must hold, and the settings the paper ran it with."""

    home: str
    commit: str
    folder: str
    module: str
    files: tuple[str, ...]
    sha256: str
    settings: dict[str, Any]
    rates: tuple[float, ...] = (1e-4,)  # tried one after the other until one does not diverge
    published: str = ""  # what the paper says of its run, where it gives no number


REPOSITORIES = {
    "official-patchtst": Repository(
        home="https://github.com/yuqinie98/PatchTST",
        commit="204c21e",
        folder="PatchTST_supervised",
        module="models.PatchTST",
        files=("models/PatchTST.py", "layers/PatchTST_backbone.py", "layers/PatchTST_layers.py", "layers/RevIN.py"),
        sha256="38904e9b822b368e207166115db4a164e2b31a6faf93e03f17d3c17a04c3b3c2",
        settings={
            "dropout": 0.2, "fc_dropout": 0.05, "head_dropout": 0.0, "individual": 0, "patch_len": 8, "stride": 4,
            "padding_patch": "end", "revin": 1, "affine": 0, "subtract_last": 0, "decomposition": 0, "kernel_size": 25,
        },
    ),
    "official-itransformer": Repository(
        home="https://github.com/thuml/iTransformer",
        commit="c2426e6",
        folder=".",
        module="model.iTransformer",
        files=(
            "model/iTransformer.py", "layers/Transformer_EncDec.py", "layers/SelfAttention_Family.py",
            "layers/Embed.py", "utils/masking.py",
        ),
        sha256="da25dd735b30c91bc0bf44b187bb7ce2de40c2ac4bc49f4a157d36af1c360f05",
        settings={
            "dropout": 0.1, "use_norm": 1, "embed": "timeF", "freq": "h", "factor": 1, "class_strategy": "projection",
        },
    ),
    SIMMTM: Repository(
        home="https://github.com/thuml/SimMTM",
        commit="169513b",
        folder="SimMTM_Forecasting",
        module="models.SimMTM",
        files=(
            "models/SimMTM.py", "layers/Transformer_EncDec.py", "layers/SelfAttention_Family.py", "layers/Embed.py",
            "utils/losses.py", "utils/masking.py", "utils/tools.py",
        ),
        sha256="3dd002fe9d27eacb5480cd9a1981ca280442bec6e55e59cf30ec5425568eb85f",
        settings={
            "dropout": 0.1, "head_dropout": 0.1, "embed": "timeF", "freq": "h", "factor": 1, "label_len": 0,
            "positive_nums": 3, "temperature": 0.2, "rbtp": 1,
        },
        rates=(1e-4, 1e-3),
        published="the paper's run diverged to NaN at two learning rates and is not reported there",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Clone:
    """A checked clone on disk."""

    name: str
    root: Path
    commit: str
    as_in_paper: bool

    def sentence(self) -> str:
        """Which code this is, for the table."""
        same = "the files of the paper's commit" if self.as_in_paper else "files that differ from the paper's commit"
        return f"{REPOSITORIES[self.name].home} at {self.commit}, {same}"


def find_clones(paths: list[Path]) -> dict[str, Clone]:
    """Recognise each clone by its files; a folder that is neither repository is refused."""
    found = {}
    for path in paths:
        for name, repository in REPOSITORIES.items():
            root = path / repository.folder
            if all((root / file).is_file() for file in repository.files):
                found[name] = Clone(name, root.resolve(), _commit(path), _digest(root, repository) == repository.sha256)
                break
        else:
            wanted = "; ".join(
                f"{r.home} (commit {r.commit}) with {r.folder}/{r.files[0]}" for r in REPOSITORIES.values()
            )
            raise ConfigError(
                f"{path} is not a clone of an official repository, or of another version of it.",
                expected=wanted.replace("./", ""),
                remedy=f"For example: git clone {REPOSITORIES['official-patchtst'].home} && point --repo to it.",
            )
    return found


def official_class(clone: Clone) -> type[nn.Module]:
    """Import the model class from the clone, leaving no trace in the interpreter's modules."""
    repository = REPOSITORIES[clone.name]
    with _only_this_clone(clone.root):
        try:
            module = importlib.import_module(repository.module)
            model: type[nn.Module] = module.Model
        except (ImportError, AttributeError, SyntaxError) as error:
            raise ConfigError(
                f"The clone in {clone.root} cannot be used: {error}.",
                expected=f"the code of {repository.home} at commit {repository.commit}",
                remedy=f"Run: git -C {clone.root} checkout {repository.commit}",
            ) from error
    return model


@contextmanager
def _only_this_clone(root: Path) -> Iterator[None]:
    """Both clones have packages called `layers`; each is imported alone. What only unused models import is stood in."""
    packages = ("layers", "model", "models", "utils")
    aside = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in packages}
    stand_ins = [name for name in ("reformer_pytorch", "einops", "seaborn") if importlib.util.find_spec(name) is None]
    for name in stand_ins:
        module: Any = ModuleType(name)
        module.LSHSelfAttention = module.rearrange = None
        sys.modules[name] = module
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        for name in [*stand_ins, *(name for name in sys.modules if name.partition(".")[0] in packages)]:
            del sys.modules[name]
        sys.modules.update(aside)


def _digest(root: Path, repository: Repository) -> str:
    """SHA-256 over the files that are imported, whatever line ends git gave them."""
    contents = [(root / file).read_bytes().replace(b"\r\n", b"\n") for file in repository.files]
    return hashlib.sha256(b"".join(contents)).hexdigest()


def _commit(path: Path) -> str:
    """The checked-out commit, if the folder is a git clone and git is there."""
    try:
        command = ["git", "-C", str(path), "rev-parse", "--short", "HEAD"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return answer.stdout.strip() if (path / ".git").exists() else "an unknown commit (no .git)"
    except (OSError, subprocess.SubprocessError):
        return "an unknown commit (no .git)"
