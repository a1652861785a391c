"""How long a run should be: enough steps for the windows there are, and how many minutes that will take."""

from crossfeed.training.order import steps_in_epoch
from crossfeed.training.run_config import RunConfig

# Measured on source validation of a simulated and of two real machines (docs/results.md): fewer steps leave errors
# that more would mend, more steps learn the sessions by heart.
FEWEST_STEPS, STEPS_PER_WINDOW = 1000, 0.2
REFERENCE_BATCH = 128


def planned(config: RunConfig, windows: int) -> RunConfig:
    """The configuration with its number of epochs filled in, if it leaves that to the number of windows."""
    training = config.training
    if training.finetune_epochs is not None:
        return config
    wanted = (FEWEST_STEPS + STEPS_PER_WINDOW * windows) * REFERENCE_BATCH / training.batch_size
    epochs = max(1, round(wanted / steps_in_epoch(windows, training.batch_size, training.steps_per_epoch)))
    return config.model_copy(update={"training": training.model_copy(update={"finetune_epochs": epochs})})
