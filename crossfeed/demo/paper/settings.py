"""What a folder of the paper is bound to, and what a size means: how large the logs, the network and the training are.

A size never takes a step of the procedure away. `base` is the paper; smaller ones are rehearsals.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from crossfeed.configuration import CheckedForm, parse
from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.budget import Budget, Size, named_budget
from crossfeed.sim.physics.production import Order
from crossfeed.sim.simulate import SCALES, Scale

MINIMUM_SEEDS = 5  # valid ones, which the paper's lock asks for
# The forecasters that the paper names, floors first.
BASELINES = (
    "persistence", "drift", "mlp", "gru", "lstm", "tcn", "dlinear", "transformer", "tsmixer", "rssm", "patchtst",
    "itransformer",
)  # fmt: skip
REVIN: dict[str, dict[str, Any]] = {"control": {}, "revin": {"model.instance_norm.kind": "pure"}}
NAME = "revin"
PURPOSE = f"declared: {NAME}"
LATENT = "no_latent.json"
# Arms that isolate the latent objective: its term off, and the likelihood alone for one stage and for both.
NO_LATENT = ("latent_weight_0", "likelihood_only", "likelihood_only_all_epochs")


@dataclass(frozen=True, slots=True)
class Extent:
    """One size: the simulated logs, what departs from the preset, and the work of a baseline."""

    logs: Scale
    settings: dict[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=lambda: named_budget("paper"))
    baseline_seeds: int = 3


EXTENTS: dict[Size, Extent] = {
    # Some seconds of a core for each run, and steep steps: after so few of them commands must be heard already.
    "tiny": Extent(
        Scale(Order(rows=6_000, sessions=14, raw_rows=10_900, duplicates=12, lost_rows=3), cycles=1_050_000),
        {
            "model.context": 16,
            "model.blocks.width": 32,
            "model.blocks.heads": 2,
            "model.blocks.dropout": 0.0,
            "model.encoder.channel_layers": 1,
            "model.encoder.temporal_layers": 1,
            "training.batch_size": 16,
            "training.steps_per_epoch": 30,
            "training.pretrain_epochs": 2,
            "training.finetune_epochs": 7,
            "training.learning_rate": 0.003,
            "training.validation_windows": 64,
            "training.ema_momentum": 0.95,
            "training.health.windows": 64,
        },
        Budget(
            epochs=9, pretext_epochs=2, steps=30, batch_size=16, validation_windows=64, official_epochs=9,
            official_seed=20260820,
        ),
        baseline_seeds=1,
    ),
    "compact": Extent(SCALES["demo"]),
    "base": Extent(SCALES["full"]),
}  # fmt: skip


class PaperSettings(CheckedForm):
    """What is worked through in a folder; other logs, another size or another number of seeds need another folder."""

    thws: Path | None = None
    joanneum: Path | None = None
    size: Size = "base"
    seeds: int = Field(default=4, ge=2)
    simulator_seed: int = Field(default=0, ge=0)

    @classmethod
    def of(
        cls, thws: Path | None, joanneum: Path | None, simulated: bool, size: Literal["tiny", "compact", "base"],
        seeds: int, simulator_seed: int = 0,
    ) -> Self:  # fmt: skip
        """The settings in the words of the command line: two folders of logs, or the simulator."""
        given = [path for path in (thws, joanneum) if path is not None]
        if simulated == bool(given) or len(given) == 1:
            raise ConfigError(
                "The logs are not named." if not given else "One pair of logs is needed, real or simulated.",
                expected="--thws DIR --joanneum DIR, or --simulated",
                remedy="Fetch them with `crossfeed data fetch thws` and `crossfeed data fetch joanneum`, or rehearse "
                "with --simulated --size tiny --seeds 2.",
            )
        for path in given:
            if not path.exists():
                raise ConfigError(f"{path} does not exist.", expected="a folder, archive or table of logs")
        one, two = (None if path is None else path.resolve() for path in (thws, joanneum))
        asked = {"thws": one, "joanneum": two, "size": size, "seeds": seeds, "simulator_seed": simulator_seed}
        return parse(cls, asked, "The paper")

    @property
    def simulated(self) -> bool:
        return self.thws is None

    @property
    def extent(self) -> Extent:
        return EXTENTS[self.size]

    @property
    def initialisation_seeds(self) -> int:
        """Of Table 2a: one more than the discovery has, as in the paper (five beside four)."""
        return self.seeds + 1

    @property
    def pairs(self) -> int:
        """Seeds of the paired ablations: three as in the paper, fewer in a rehearsal with fewer."""
        return min(3, self.seeds)
