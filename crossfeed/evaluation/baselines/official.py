"""The official PatchTST, iTransformer and SimMTM modules, trained on our windows as in the paper (Appendix E).

All channels are forecast at all steps and trained with squared error; sensors are scored at the horizons.
B windows, K context rows, T longest horizon, V = sensors + commands, C sensors, H horizons, P masked copies."""

import hashlib
import importlib.util
import math
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from crossfeed.configuration import CheckedForm, load_yaml
from crossfeed.errors import ConfigError, TrainingError
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.network import Network, Shape, joint_series
from crossfeed.evaluation.baselines.neural import NeuralForecaster, Objective, Schedule, Stage
from crossfeed.evaluation.baselines.reconstruction import geometric_runs
from crossfeed.model.distribution import Distribution, Point
from crossfeed.windows.windows import WindowBatch, WindowSet, present_mean

SIMMTM = "official-simmtm"


class Repository(CheckedForm):
    """What a clone must hold, and the settings the paper ran it with."""

    home: str
    commit: str
    folder: str
    module: str
    files: tuple[str, ...]
    sha256: str
    unused_inputs: int
    rates: tuple[float, ...]
    settings: dict[str, Any]
    published: str = ""


_FACTS = load_yaml(Path(__file__).with_name("official.yaml"), "The table of repositories")
REPOSITORIES = {name: Repository.model_validate(facts) for name, facts in _FACTS.items()}


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


BETA = 0.9  # the first of Adam, as everywhere here
_SETTINGS: dict[str, Any] = {
    "d_model": 128, "n_heads": 8, "e_layers": 3, "d_ff": 256, "activation": "gelu", "output_attention": False,
}  # fmt: skip
_WARM_UP = 0.3  # of all steps of the one cycle, the repository's default


def one_cycle(step: int, steps: int, epochs: int) -> tuple[float, float]:
    """`TST`: up from 1/25 of the rate to all of it and down to 1/250,000, by cosines; the first beta the other way."""
    last = steps * epochs - 1
    peak = _WARM_UP * (last + 1) - 1
    if peak > 0 and step <= peak:
        into = (1 - math.cos(math.pi * step / peak)) / 2
        return 1 / 25 + (1 - 1 / 25) * into, 0.95 - 0.1 * into
    into = (1 - math.cos(math.pi * (step - peak) / (last - peak))) / 2
    return 1 + (1 / 250_000 - 1) * into, 0.85 + 0.1 * into


def halving(step: int, steps: int, epochs: int) -> tuple[float, float]:  # noqa: ARG001
    """`type1`: the whole rate for two epochs, half of the last one in every epoch after that."""
    return 0.5 ** max(0, step // steps - 1), BETA


def cosine(step: int, steps: int, epochs: int) -> tuple[float, float]:
    """SimMTM's pretraining: down to nothing along a cosine, epoch by epoch."""
    return (1 + math.cos(math.pi * (step // steps) / epochs)) / 2, BETA


SCHEDULES: dict[tuple[str, str], Schedule] = {
    ("official-patchtst", "forecast"): one_cycle,
    ("official-itransformer", "forecast"): halving,
    (SIMMTM, "pretext"): cosine,
    (SIMMTM, "forecast"): halving,
}


class OfficialNetwork(Network):
    """The official module: 21 channels in and out, absent ones as zeros, no planned commands, no spread."""

    horizon_H: Tensor

    def __init__(self, clone: Clone, shape: Shape) -> None:
        super().__init__()
        self.sensors, self.steps = shape.sensors, shape.steps
        channels = shape.sensors + shape.commands
        sizes = {"enc_in": channels, "seq_len": shape.context, "pred_len": shape.steps}
        settings = {**_SETTINGS, **REPOSITORIES[clone.name].settings, **sizes}
        build = official_class(clone)
        self.official = build(Namespace(**settings, task_name="finetune"))
        self._unused = REPOSITORIES[clone.name].unused_inputs
        self.has_pretext = clone.name == SIMMTM
        if self.has_pretext:
            self.pretraining = build(Namespace(**settings, task_name="pretrain"))
            for part in ("encoder", "enc_embedding"):
                setattr(self.official, part, getattr(self.pretraining, part))
            self._copies = settings["positive_nums"]
        self.register_buffer("horizon_H", torch.tensor(shape.horizons) - 1, persistent=False)

    def all_steps(self, batch: WindowBatch) -> Tensor:
        """Every step up to the longest horizon of every channel, commands too: (B, T, V)."""
        x_BKV, _ = joint_series(batch)
        y_BTV: Tensor = self.official(x_BKV, *[None] * self._unused)
        return y_BTV

    def forward(self, batch: WindowBatch) -> Distribution:
        return Point(self.all_steps(batch)[:, self.horizon_H, : self.sensors])

    def pretext(self, batch: WindowBatch, generator: torch.Generator) -> Tensor:
        """SimMTM's own loss; a series that its masks hide altogether divides it by zero, as in its own script."""
        x_BKV, _ = joint_series(batch)
        copies_PKV = x_BKV.repeat(self._copies, 1, 1)
        hidden_PKV = geometric_runs((len(copies_PKV), x_BKV.shape[1], x_BKV.shape[2]), generator)
        seen = torch.cat([torch.ones_like(x_BKV), (~hidden_PKV).to(x_BKV.dtype)])
        loss: Tensor = self.pretraining(torch.cat([x_BKV, copies_PKV * ~hidden_PKV]), None, x_BKV, mask=seen)[0]
        return loss


class OfficialForecaster(NeuralForecaster):
    """Trained at the authors' rate and schedule without weight decay or clipping; the size is always the paper's."""

    def __init__(self, clone: Clone, budget: Budget) -> None:
        pretext = budget.pretext_epochs if clone.name == SIMMTM else 0
        # With epochs of its own the official code has them for each of its stages.
        epochs = budget.official_epochs + pretext if budget.official_epochs else budget.epochs
        plain = budget.model_copy(update={"weight_decay": 0.0, "clip_norm": float("inf"), "epochs": epochs})
        rates = REPOSITORIES[clone.name].rates
        super().__init__(clone.name, lambda shape: OfficialNetwork(clone, shape), plain, rates[0], False)
        self._clone, self._rates = clone, rates

    @property
    def details(self) -> dict[str, Any]:
        """What each stage did, and whose code it was."""
        return {**super().details, "code": self._clone.sentence()}

    def fit(self, train: WindowSet, validation: WindowSet, seed: int) -> None:
        """Train at the first rate that does not diverge; where none is left, say what happened at each."""
        told = []
        for rate in self._rates:
            self._rate = rate
            try:
                return super().fit(train, validation, seed)
            except TrainingError as error:
                told.append(f"at a rate of {rate:g}: {error.found}")
        raise TrainingError(" ".join(told), remedy="Report it as it is, as the paper does.")

    def _stages(self, network: Network, train: WindowSet) -> list[Stage]:
        stages = super()._stages(network, train)
        return [replace(stage, schedule=SCHEDULES[self.name, stage.name]) for stage in stages]

    def _objective(self, network: Network, train: WindowSet) -> Objective:
        assert isinstance(network, OfficialNetwork)
        ahead_T = torch.arange(1, network.steps + 1, device=train.last_W.device)

        def objective(batch: WindowBatch, generator: torch.Generator) -> Tensor:  # noqa: ARG001
            row_BT = batch.last_index_B[:, None] + ahead_T
            future_BTV = torch.cat([train.x_NC[row_BT], batch.future_a_BTA], dim=-1)
            present_BTV = torch.cat([train.m_NC[row_BT], torch.ones_like(batch.future_a_BTA).bool()], dim=-1)
            return present_mean((network.all_steps(batch) - future_BTV).square(), present_BTV)

        return objective
