"""Learn from a fleet: one network, every machine in its own frame, validated on machines it has never met."""

from math import ceil
from pathlib import Path

from crossfeed.configuration import override
from crossfeed.errors import ConfigError
from crossfeed.fleet.shards import shard_paths
from crossfeed.ingest.table import Table
from crossfeed.model.network_config import Size
from crossfeed.training.run import RunResult, train
from crossfeed.training.run_config import RunConfig, preset

STEPS = 36_000
STEPS_PER_EPOCH = 2000
# Frames are estimates: gains and commands vary as much as a short history may be wrong about them.
SETTINGS = {
    "model.identity": "described",
    "machines.gain": 0.6,
    "machines.level": 0.1,
    "machines.noise": 0.02,
    "machines.commands": 0.3,
    "data.normaliser": "frame",
    "data.split_by": "machine",
    "data.train_fraction": 0.8,
    "data.validation_fraction": 0.1,
    "data.stride": 4,
    "training.batch_size": 256,
    "training.average_decay": 0.999,
    "training.validation_windows": 4096,
    "training.patience": 1000,
    "training.keep": "machines",
    "training.acceleration": "compile",
    # Its people turn knobs, so what a feed does is in its logs.
    "plans.share": 0.0,
}


def fleet_config(size: Size = "compact", steps: int = STEPS, seed: int = 0) -> RunConfig:
    """The complete configuration of the shipped model; other sizes and lengths for other purposes."""
    if steps < 1:
        raise ConfigError(f"{steps} steps teach nothing.", expected="at least one step")
    epochs = max(1, round(steps / STEPS_PER_EPOCH))
    length = {"training.steps_per_epoch": ceil(steps / epochs), "training.finetune_epochs": epochs}
    return override(preset("crossfeed", size), SETTINGS | length | {"training.seed": seed}, "The fleet's settings")


def train_fleet(
    folder: Path, out: Path, config: RunConfig, *, device: str = "auto", resume: bool = False,
    pretrained: Path | None = None,
) -> RunResult:  # fmt: skip
    """Train on a fleet; `resume` goes on with a run that was stopped, `pretrained` with another fleet's model."""
    return train(
        [Table.read(path) for path in shard_paths(folder)],
        config,
        out,
        device=device,
        resume=resume,
        pretrained=pretrained,
    )
