"""What the demo trains and compares: small enough for two cores, the same amount of work for everybody."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from crossfeed.configuration import CheckedForm

Data = Literal["simulated", "michigan", "mtconnect"]

# A narrow model with short memory: about 25 s of processor time for a run.
MODEL: dict[str, Any] = {
    "model.context": 16,
    "model.dropout": 0.0,
    "model.members": 1,
    "training.batch_size": 32,
    "training.steps_per_epoch": 40,
    "training.finetune_epochs": 11,
    "training.learning_rate": 0.003,
    "training.warmup_steps": 20,
    "training.average_decay": 0.98,
    "training.validation_windows": 128,
}
# Loads that stand still most of the time teach slowly: shorter training ends before the commands tell anything.
LONGER: dict[Data, dict[str, Any]] = {"mtconnect": {"training.finetune_epochs": 24}}
# The preset, the preset trained as if all machines were alike, and one with more ways to move.
CANDIDATES: dict[str, dict[str, Any]] = {
    "as_the_preset": {},
    "machines_alike": {"machines.gain": 0.0, "machines.level": 0.0, "machines.noise": 0.0},
    "four_movers": {"model.movers": 4},
}
SEEDS = 2
MINIMUM_SEEDS = 3
MOST_SEEDS = 5
JOBS = 2
RIVALS = ("persistence", "drift", "ridge", "trees", "gru+revin", "patchtst")


class DemoSettings(CheckedForm):
    """What a demo folder is bound to; another seed or other data need another folder."""

    data: Data = "simulated"
    logs: Path | None = None
    seed: int = Field(default=0, ge=0)

    @classmethod
    def of(cls, data: tuple[str, Path] | None, seed: int) -> Self:
        """The settings in the words of the command line: nothing for the simulator, else a kind of log and a folder."""
        from crossfeed.configuration import parse

        kind, logs = data or ("simulated", None)
        return parse(cls, {"data": kind, "logs": None if logs is None else logs.resolve(), "seed": seed}, "The demo")

    @property
    def model(self) -> dict[str, Any]:
        """What the study's candidates depart from."""
        return MODEL | LONGER.get(self.data, {})

    @property
    def simulated(self) -> bool:
        return self.data == "simulated"
