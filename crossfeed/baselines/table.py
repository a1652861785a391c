"""The table of a comparison: mean and spread over seeds, as CSV, JSON and Markdown."""

import csv
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from crossfeed.atomic import atomic_file
from crossfeed.configuration import recorded
from crossfeed.json_file import write_sealed
from crossfeed.show.formats import markdown
from crossfeed.show.tables import ResultTable, ShownByTables, columns

if TYPE_CHECKING:
    from crossfeed.baselines.budget import Budget, Size
    from crossfeed.baselines.comparison_data import ComparisonData
    from crossfeed.baselines.results import Result

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

    def cell(self, column: str) -> dict[str, float | None] | None:
        """Mean and spread of a column; nothing where no seed has finished."""
        mean = self.mean.get(column)
        return None if mean is None else {"estimate": mean, "spread": self.spread.get(column)}


@dataclass(frozen=True, repr=False)
class ComparisonTable(ShownByTables):
    """Rows in the order of the line-up, and the sentences without which the numbers mean little."""

    sets: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]
    notes: tuple[str, ...]

    @classmethod
    def build(
        cls,
        results: "Sequence[Result]",
        missing: dict[str, str],
        data: "ComparisonData",
        budget: "Budget",
        size: "Size",
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
            f"{max((row.seeds for row in rows), default=0)} seeds (floors and ridge have none).",
            "cmd: RMSE under the planned commands of another window / under the true ones; 1 is not listening. size: "
            "trained numbers (trees: leaves). s: seconds of training.",
            "Point forecasters (floors, ridge, trees, patchtst, itransformer) have the spread of their own errors on "
            "train or validation windows, whichever is larger (floors: on train windows).",
            *([decided] if lively else []),
        ))  # fmt: skip

    def tables(self) -> list[ResultTable]:
        """One table for each set of windows, the last with what has to be said beside the numbers."""
        *first, last = (set_table(self, name) for name in self.sets)
        return [*first, replace(last, remarks=tuple(remarks(self)))]

    @classmethod
    def from_dict(cls, content: Any, origin: str = "The comparison") -> Self:
        """What table.json holds; content that is none is refused."""
        return recorded(cls, content, origin, "a comparison", "crossfeed compare", "Compare again.")


def over_seeds(model: str, results: "Sequence[Result]", sets: Sequence[str], remark: str) -> ComparisonRow:
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
    return ComparisonRow(
        model=model, seeds=len(finished), diverged=len(diverged), mean=mean, spread=spread,
        parameters=max((result.parameters for result in finished), default=0),
        seconds=statistics.fmean([result.seconds for result in finished]) if finished else 0.0,
        uses_future_commands=any(result.uses_future_commands for result in finished),
        absent=results[0].absent if results else "", remark=remark,
    )  # fmt: skip


def write_table(folder: Path, table: ComparisonTable, results: "Sequence[Result]") -> None:
    """Save the table as CSV, JSON (with every single result) and Markdown."""
    write_sealed(folder / "table.json", {**asdict(table), "results": [asdict(result) for result in results]})
    with atomic_file(folder / "table.md") as temporary:
        temporary.write_text(written(table), encoding="utf-8")
    with atomic_file(folder / "table.csv") as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        flat = [_flat(row) for row in table.rows]
        writer = csv.DictWriter(file, list(flat[0]) if flat else [])
        writer.writeheader()
        writer.writerows(flat)


def _flat(row: ComparisonRow) -> dict[str, Any]:
    plain = {key: value for key, value in asdict(row).items() if key not in ("mean", "spread")}
    spread = {f"{column}.sd": value for column, value in row.spread.items()}
    return {"model": plain.pop("model"), **row.mean, **spread, **plain}


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
