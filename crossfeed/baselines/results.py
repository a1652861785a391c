"""What one model did with one seed: one JSON file, whole or not there, so that no finished run is run twice."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from crossfeed.errors import StorageError
from crossfeed.evaluation.command_use import false_plan
from crossfeed.evaluation.evaluate import EvaluationSet, evaluate
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.json_file import read_sealed, write_sealed

METRICS = ("rmse", "mae", "crps", "nll", "coverage90", "command_use")
# Command use needs extra passes; so many evenly spread windows say enough.
_PROBED = 1000


@dataclass(frozen=True)
class Result:
    """One model, one seed; one that diverged or could not be run at all has a reason instead of scores."""

    model: str
    seed: int
    status: Literal["finished", "diverged", "not run"]
    absent: str
    reason: str = ""
    uses_future_commands: bool = False
    parameters: int = 0
    seconds: float = 0.0
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)

    def in_words(self, metric: str) -> str:
        """How it ended, for a line of progress."""
        if self.status != "finished":
            return f"{'could not run' if self.status == 'not run' else 'diverged'}: {self.reason}"
        errors = ", ".join(f"{name} {metric.upper()} {scores[metric]:.3f}" for name, scores in self.scores.items())
        return f"{errors} ({self.seconds:.0f} s)"

    def write(self, path: Path) -> None:
        """Save the result; it appears whole or not at all."""
        write_sealed(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> "Result":
        """Read a saved result."""
        remedy = "Delete the file; the run is then done again."
        try:
            return cls(**read_sealed(path, remedy))
        except TypeError as error:
            raise StorageError(f"The result {path} cannot be read: {error}.", remedy=remedy) from error


def measure(forecaster: Forecaster, data: EvaluationSet) -> dict[str, Any]:
    """All metrics of the table on one set of windows, with the errors per horizon and per run beside them."""
    scores = evaluate(forecaster, data)
    pooled = scores.metrics()
    index_W = data.sample(_PROBED)
    true = scores if len(index_W) == len(data.windows) else evaluate(forecaster, data, index_W)
    shuffled = evaluate(forecaster, data, index_W, false_plan("shuffled", data, index_W, seed=0))
    rmse, rmse_shuffled = true.metrics()["rmse"], shuffled.metrics()["rmse"]
    return {
        **{name: pooled[name] for name in ("rmse", "mae", "crps", "nll", "skill_rmse", "skill_mae")},
        "coverage90": pooled["coverage90"],
        "command_use": rmse_shuffled / rmse if rmse and rmse_shuffled is not None else None,
        "windows": scores.windows,
        "rmse_by_horizon": {label: row["rmse"] for label, row in scores.by("horizon").items()},
        "rmse_by_channel": {label: row["rmse"] for label, row in scores.by("channel").items()},
        "rmse_by_run": {label: row["rmse"] for label, row in scores.by("run").items()},
        "mae_by_run": {label: row["mae"] for label, row in scores.by("run").items()},
    }
