"""How long everybody learns from so many windows: as a training run of that budget does, the same for all."""

from crossfeed.baselines.budget import Budget
from crossfeed.baselines.sizes import Size
from crossfeed.training.budget import BUDGETS, planned
from crossfeed.training.run_config import preset

MOST_EPOCHS = 200  # of a normal run: few windows are known by heart long before
VALIDATION_WINDOWS = 1000


def effort(budget: str, size: Size, windows: int) -> Budget:
    """Epochs and batches for so many train windows; batches are small where windows are few."""
    config = preset("crossfeed", size)
    batch = max(2, min(config.training.batch_size, windows // 4))
    training = config.training.model_copy(update={"batch_size": batch})
    length = BUDGETS[budget].length if budget in BUDGETS else 1.0
    wanted = planned(config.model_copy(update={"training": training}), windows, budget).training
    epochs = max(2, min(wanted.finetune_epochs or 2, round(MOST_EPOCHS * length)))
    patience = max(3, min(wanted.patience, epochs // 3))
    return Budget(
        epochs=epochs, pretext_epochs=epochs // 2, batch_size=batch, patience=patience,
        validation_windows=VALIDATION_WINDOWS,
    )  # fmt: skip
