"""What one would use instead: baselines on the very windows of the opening, with the same number of batches."""

from pathlib import Path
from typing import Any

from crossfeed.baselines.budget import Budget
from crossfeed.baselines.compare import compare
from crossfeed.baselines.regression import missing_library
from crossfeed.demo.chapter import ChapterResult
from crossfeed.demo.selection import RELEASED, STUDY, is_locked
from crossfeed.demo.settings import JOBS, RIVALS
from crossfeed.demo.tables import SOURCE
from crossfeed.ingest.table import Table
from crossfeed.json_file import read_sealed
from crossfeed.study.study import Study
from crossfeed.training.config import TrainingConfig

COMPARISON, TABLE = "comparison", "comparison/table.json"


def budget(training: TrainingConfig) -> Budget:
    """As many batches of the same size as a run of the study has."""
    assert training.steps_per_epoch is not None
    epochs = sum(training.stages.values())
    return Budget(
        epochs=epochs,
        pretext_epochs=epochs // 4,
        steps=training.steps_per_epoch,
        batch_size=training.batch_size,
        validation_windows=training.validation_windows,
        learning_rate=training.learning_rate,
        tree_rounds=40,
        tree_windows=training.steps_per_epoch * training.batch_size * 2,
    )


def rivals(folder: Path) -> ChapterResult:
    """Train and score them; without a lock the target is sealed and they meet on the source alone."""
    target = Table.read(folder / RELEASED) if is_locked(folder) else None
    config = Study(folder / STUDY).config
    models = [name for name in RIVALS if name != "trees" or not missing_library()]
    compare(
        [Table.read(folder / SOURCE)], target, folder / COMPARISON,
        models=",".join(models), seeds=1, budget=budget(config.training), size="tiny", config=config,
        device="cpu", jobs=JOBS,
    )  # fmt: skip
    judged = "source" if target is None else "target"
    said = ", ".join(f"{name} {mean[f'{judged}.rmse']:.3f}" for name, mean in finished_rivals(folder).items())
    return ChapterResult(f"RMSE on the {judged}: {said}", (TABLE,))


def finished_rivals(folder: Path) -> dict[str, dict[str, Any]]:
    """The mean metrics of every model that came to an end, as the comparison wrote them down."""
    rows = read_sealed(folder / TABLE)["rows"]
    return {row["model"]: row["mean"] for row in rows if row["seeds"]}
