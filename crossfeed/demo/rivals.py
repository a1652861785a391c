"""What one would use instead: baselines on the very windows of the opening, with the same number of batches."""

from pathlib import Path

from crossfeed.baselines.budget import Budget
from crossfeed.baselines.compare import compare
from crossfeed.baselines.table import ComparisonTable
from crossfeed.demo.chapter import Told
from crossfeed.demo.selection import RELEASED, STUDY, is_locked
from crossfeed.demo.settings import MODEL, RIVALS
from crossfeed.demo.tables import SOURCE
from crossfeed.ingest.table import Table
from crossfeed.study.study import Study

COMPARISON = "comparison"


def budget() -> Budget:
    """As many batches of the same size as a run of the study has."""
    return Budget(
        epochs=MODEL["training.pretrain_epochs"] + MODEL["training.finetune_epochs"],
        pretext_epochs=MODEL["training.pretrain_epochs"],
        steps=MODEL["training.steps_per_epoch"],
        batch_size=MODEL["training.batch_size"],
        validation_windows=MODEL["training.validation_windows"],
        learning_rate=MODEL["training.learning_rate"],
        tree_rounds=60,
        tree_windows=MODEL["training.steps_per_epoch"] * MODEL["training.batch_size"] * 3,
    )


def rivals(folder: Path) -> Told:
    """Train and score them; without a lock the target is sealed and they meet on the source alone."""
    table = comparison(folder)
    judged = "target" if is_locked(folder) else "source"
    known = {row.model: row.mean[f"{judged}.rmse"] for row in table.rows if row.seeds}
    said = ", ".join(f"{name} {value:.3f}" for name, value in known.items() if value is not None)
    return Told(f"RMSE on the {judged}: {said}", (f"{COMPARISON}/table.json",))


def comparison(folder: Path) -> ComparisonTable:
    """The finished comparison; what was run before is read, not run again."""
    target = Table.read(folder / RELEASED) if is_locked(folder) else None
    models = ",".join(_possible())
    config = Study(folder / STUDY).config
    found = compare(
        [Table.read(folder / SOURCE)], target, folder / COMPARISON,
        models=models, seeds=1, budget=budget(), size="tiny", config=config, device="cpu", jobs=2,
    )  # fmt: skip
    return found.table


def _possible() -> list[str]:
    from importlib.util import find_spec

    return [name for name in RIVALS if name != "trees" or find_spec("lightgbm") is not None]
