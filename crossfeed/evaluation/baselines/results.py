"""What one model did with one seed, and the table of a comparison: mean and spread over seeds."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from crossfeed.errors import StorageError
from crossfeed.evaluation.baselines.budget import Budget, Size
from crossfeed.jobs import once
from crossfeed.show.formats import markdown
from crossfeed.show.tables import RecordedResult, ResultTable, columns

if TYPE_CHECKING:
    from crossfeed.evaluation.baselines.contenders import ComparisonData

METRICS = ("rmse", "mae", "crps", "nll", "coverage90", "command_use")


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

    @classmethod
    def of(cls, path: Path, make: Callable[[], "Result"]) -> "Result":
        """The result saved in a file, or a new one that appears there whole."""
        try:
            return cls(**once(path, lambda: asdict(make())))
        except TypeError as error:
            remedy = "Delete the file; the run is then done again."
            raise StorageError(f"The result {path} cannot be read: {error}.", remedy=remedy) from error


def result_file(folder: Path, model: str, seed: int) -> Path:
    """Where the result of a run lies."""
    return folder / "runs" / f"{model}-seed{seed}.json"


TITLES = {"source": "Source, test side", "target": "Target, zero-shot"}
HEADINGS = {
    "rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "nll": "NLL", "coverage90": "in 90 %", "command_use": "cmd",
}  # fmt: skip
# Metrics of which the smallest value is the best; the best of each column is set in bold.
_LOWEST = ("rmse", "mae", "crps", "nll")


@dataclass(frozen=True)
class ComparisonRow:
    """One model over its seeds; `mean` and `spread` are keyed by (set, metric) joined with a dot."""

    model: str
    seeds: int
    diverged: int
    mean: dict[str, float | None]
    spread: dict[str, float | None]
    parameters: int
    seconds: float
    uses_future_commands: bool
    absent: str
    remark: str
    windows: dict[str, int | None] = field(default_factory=dict)

    def cell(self, column: str) -> dict[str, float | None] | None:
        """Mean and spread of a column; nothing where no seed has finished."""
        mean = self.mean.get(column)
        return None if mean is None else {"estimate": mean, "spread": self.spread.get(column)}


@dataclass(frozen=True, repr=False)
class ComparisonTable(RecordedResult):
    """Rows in the order of the line-up, and the sentences without which the numbers mean little."""

    RECORD: ClassVar = ("a comparison", "crossfeed compare", "Compare again.")

    sets: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]
    notes: tuple[str, ...]
    results: tuple[Result, ...] = ()

    @classmethod
    def build(
        cls,
        results: Sequence[Result],
        missing: dict[str, str],
        data: "ComparisonData",
        budget: Budget,
        size: Size,
    ) -> "ComparisonTable":
        """Average over seeds; diverged runs are counted, never averaged in."""
        sets = tuple(data.scored)
        models = dict.fromkeys([*(result.model for result in results), *missing])
        rows = tuple(
            over_seeds(model, [result for result in results if result.model == model], sets, missing.get(model, ""))
            for model in models
        )
        counts = ", ".join(f"{name} {len(part.windows)}" for name, part in data.scored.items())
        train = data.training
        lively = ", ".join(f"{name} {times:,.0f} times" for name, times in data.out_of_scale().items())
        decided = f"Sensors move more where they are scored than in the train rows and decide every mean: {lively}."
        return cls(sets, rows, (
            f"Errors in z-units of the source's train rows, over present entries of all horizons; {counts} windows.",
            f"Learned on {len(train.train)} windows, stopped on {len(train.validation)}; size {size}; "
            f"budget {budget.sentence()}; "
            f"{max((row.seeds for row in rows), default=0)} seeds (naive baselines and ridge have none).",
            "cmd: RMSE under the planned commands of another window / under the true ones; 1 is not listening. size: "
            "trained numbers (trees: leaves). s: seconds of training.",
            "Point forecasters (naive baselines, ridge, trees, patchtst, itransformer) have the spread of their own "
            "errors on train or validation windows, whichever is larger (naive baselines: on train windows).",
            *([decided] if lively else []),
        ), tuple(results))  # fmt: skip

    def write(self, folder: Path) -> None:
        """Save table.json (with every single result), table.csv and table.md."""
        self.write_as(folder, "table", [_flat(row) for row in self.rows], written(self))

    def tables(self) -> list[ResultTable]:
        """One table for each set of windows, the last with what has to be said beside the numbers."""
        *first, last = (set_table(self, name) for name in self.sets)
        return [*first, replace(last, remarks=tuple(remarks(self)))]


def over_seeds(model: str, results: Sequence[Result], sets: Sequence[str], remark: str) -> ComparisonRow:
    """One model's results as one row; diverged runs are counted, never averaged in."""
    finished = [result for result in results if result.status == "finished"]
    diverged = [result for result in results if result.status == "diverged"]
    mean: dict[str, float | None] = {}
    spread: dict[str, float | None] = {}
    for name in sets:
        for metric in HEADINGS:
            values = [result.scores[name][metric] for result in finished]
            known = [float(value) for value in values if value is not None]
            mean[f"{name}.{metric}"] = statistics.fmean(known) if known else None
            spread[f"{name}.{metric}"] = statistics.stdev(known) if len(known) > 1 else None
    if diverged:
        remark = f"diverged in {len(diverged)} of {len(results)} seeds: {diverged[0].reason}"
    # The number of windows that all seeds were judged on, where it is the same.
    counted = {name: {result.scores[name].get("windows") for result in finished} for name in sets}
    return ComparisonRow(
        model=model, seeds=len(finished), diverged=len(diverged), mean=mean, spread=spread,
        parameters=max((result.parameters for result in finished), default=0),
        seconds=statistics.fmean([result.seconds for result in finished]) if finished else 0.0,
        uses_future_commands=any(result.uses_future_commands for result in finished),
        absent=results[0].absent if results else "", remark=remark,
        windows={name: next(iter(counts)) if len(counts) == 1 else None for name, counts in counted.items()},
    )  # fmt: skip


def _flat(row: ComparisonRow) -> dict[str, Any]:
    facts = {key: value for key, value in asdict(row).items() if key not in ("model", "mean", "spread", "windows")}
    return {"model": row.model, **row.mean, **{f"{column}.sd": value for column, value in row.spread.items()}, **facts}


def written(table: ComparisonTable) -> str:
    """The table for a document, one part for each set of windows."""
    return "\n\n".join([*(markdown(set_table(table, name)) for name in table.sets), *remarks(table)]) + "\n"


def set_table(table: ComparisonTable, name: str) -> ResultTable:
    """Every model on one set of windows, mean and spread over seeds."""
    rows = tuple(
        {
            "model": row.model, "seeds": row.seeds, **{key: row.cell(f"{name}.{key}") for key in HEADINGS},
            "parameters": row.parameters, "seconds": row.seconds, "plan": "yes" if row.uses_future_commands else "no",
        }
        for row in table.rows
    )  # fmt: skip
    heads = columns(
        ("model", "model", "text"), ("seeds", "seeds", "count"),
        *((key, title, "share" if key == "coverage90" else "number") for key, title in HEADINGS.items()),
        ("plan", "sees the plan", "text"), ("parameters", "size", "count"), ("seconds", "training", "seconds"),
    )  # fmt: skip
    caption = f"{TITLES[name]}: mean ± standard deviation over seeds. RMSE of the mean, MAE of the median."
    return ResultTable(f"comparison-{name}", caption, heads, rows, lowest=_LOWEST)


def remarks(table: ComparisonTable) -> list[str]:
    """What has to be said beside the numbers, who handles absent channels how, and who did not make it."""
    absent: dict[str, list[str]] = {}
    for row in table.rows:
        if row.absent:
            absent.setdefault(row.absent, []).append(row.model)
    handled = "; ".join(f"{how} ({', '.join(models)})" for how, models in absent.items())
    troubles = [f"{row.model}: {row.remark}" for row in table.rows if row.remark]
    return [*table.notes, f"Absent channels: {handled}.", *troubles]
