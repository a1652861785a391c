"""How long a run should be: enough steps for the windows there are, more or fewer for people in a hurry or none."""

from dataclasses import dataclass
from math import ceil

from crossfeed.errors import ConfigError
from crossfeed.training.config import TrainingConfig
from crossfeed.training.run_config import RunConfig
from crossfeed.training.seeds import steps_in_epoch

# Measured on source validation of a simulated and of two real machines (docs/experiments.md): fewer steps leave errors
# that more would mend, more steps learn the sessions by heart.
FEWEST_STEPS, STEPS_PER_WINDOW = 1000, 0.2
REFERENCE_BATCH = 128
FEWEST_PATIENT_EPOCHS = 3


@dataclass(frozen=True, slots=True)
class RunLength:
    """How much of the usual length, and after which part of it without a better epoch to stop; none: as configured."""

    length: float
    patience: float | None = None


BUDGETS = {"quick": RunLength(0.25, 0.25), "normal": RunLength(1.0), "thorough": RunLength(3.0, 0.34)}


def planned(config: RunConfig, windows: int, budget: str = "normal") -> RunConfig:
    """The configuration with its number of epochs filled in where it leaves that to the windows, and a budget kept."""
    if budget not in BUDGETS:
        raise ConfigError(f"There is no budget '{budget}'.", expected=f"one of {', '.join(BUDGETS)}")
    training = config.training
    if training.finetune_epochs is not None and budget == "normal":
        return config
    usual = training.finetune_epochs if training.finetune_epochs is not None else _usual_epochs(training, windows)
    length, part = BUDGETS[budget].length, BUDGETS[budget].patience
    stages = {
        "pretrain_epochs": _scaled(training.pretrain_epochs, length),
        "finetune_epochs": _scaled(usual, length),
    }
    waits = training.patience if part is None else max(FEWEST_PATIENT_EPOCHS, ceil(part * max(stages.values())))
    return config.model_copy(update={"training": training.model_copy(update={**stages, "patience": waits})})


def _usual_epochs(training: TrainingConfig, windows: int) -> int:
    wanted = (FEWEST_STEPS + STEPS_PER_WINDOW * windows) * REFERENCE_BATCH / training.batch_size
    return max(1, round(wanted / steps_in_epoch(windows, training.batch_size, training.steps_per_epoch)))


def _scaled(epochs: int, length: float) -> int:
    """A stage that is left out stays out; any other has at least one epoch."""
    return max(1, round(epochs * length)) if epochs else 0
