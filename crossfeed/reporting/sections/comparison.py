"""Baselines on the same windows, and the paper's table of transfer results."""

from collections.abc import Mapping
from typing import Any

from crossfeed.grid import plural
from crossfeed.json_file import plain
from crossfeed.reporting.artefacts import Artefacts, ModelResult
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns, section
from crossfeed.reporting.panels import Dot, Dots
from crossfeed.reporting.rivals import against_rivals
from crossfeed.reporting.study_facts import StudyFacts, over_seeds
from crossfeed.study.record.declaration import Declaration

THIS_MODEL = "this model"
_TITLES = {"source": "Source, test side", "target": "Target, zero-shot"}
_METRICS = {
    "rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "nll": "NLL", "coverage90": "in 90 %", "command_use": "cmd",
}  # fmt: skip


def sections(found: Artefacts) -> list[Section]:
    """The comparison, if one was made."""
    content = found.comparison
    if not content.get("rows"):
        return []
    blocks: list[Block] = [_figure(found)]
    if told := against_rivals(found):
        blocks.append(Note(told, "fair" if "as good or better" in told else "good"))
    blocks += [_table(found, name) for name in content["sets"]]
    if "target" in content["sets"]:
        blocks.append(_paper(found))
    if content.get("notes"):
        blocks.append(Note(" ".join(str(note) for note in content["notes"])))
    blocks += [Note(f"{row['model']}: {row['remark']}", "fair") for row in content["rows"] if row.get("remark")]
    lead = (
        "Everything a user might pick instead, trained on the same windows for the same number of epochs. Look whether "
        "anyone simpler is as good; then take the simpler one."
    )
    return section("comparison", "Baselines", lead, blocks)


def _figure(found: Artefacts) -> Figure:
    content = found.comparison
    rows, panels = [row for row in content["rows"] if row["seeds"]], list[Dots]()
    for name in content["sets"]:
        own = found.on_target() if name == "target" else found.on_source()
        dots = [Dot(None)] if own else []
        for row in rows:
            mean, spread = row["mean"][f"{name}.rmse"], row["spread"][f"{name}.rmse"]
            dots.append(Dot(mean, None if spread is None else mean - spread, None if spread is None else mean + spread))
        floor = next((row["mean"][f"{name}.rmse"] for row in rows if row["model"] == "persistence"), None)
        reference = float(floor) if floor is not None else None
        limits = (0.0, 2.5 * float(floor)) if floor is not None else None
        models = [str(row["model"]) for row in rows]
        series = [("baselines", 0, tuple(dots))]
        if own:
            this = Dot.of(own.evaluation.intervals[own.name]["rmse"])
            series.append((THIS_MODEL, 1, (this, *(Dot(None) for _ in rows))))
            models.insert(0, THIS_MODEL)
        panels.append(Dots(_TITLES.get(name, name), "RMSE (z-units)", tuple(models), tuple(series), reference, limits))
    caption = (
        "RMSE of every model: of baselines mean and standard deviation over seeds, of this model the 95 % interval "
        "over runs where it was judged on that side. The dotted line is persistence."
    )
    return Figure("comparison", caption, tuple(panels), ((THIS_MODEL, 1, "points"), ("baselines", 0, "points")))


def _value(row: Mapping[str, Any], column: str) -> Any:
    mean, spread = row["mean"].get(column), row["spread"].get(column)
    if mean is None or spread is None:
        return mean
    return {"estimate": mean, "spread": spread}


def _table(found: Artefacts, name: str) -> ReportTable:
    own = found.on_target() if name == "target" else found.on_source()
    rows = [_own_row(own)] if own else []
    rows += [
        {
            "model": row["model"], "seeds": row["seeds"], **{key: _value(row, f"{name}.{key}") for key in _METRICS},
            "parameters": row["parameters"], "seconds": row["seconds"],
            "plan": "yes" if row["uses_future_commands"] else "no",
        }
        for row in found.comparison["rows"]
    ]  # fmt: skip
    heads = columns(
        ("model", "model", "text"), ("seeds", "seeds", "count"),
        *((key, title, "share" if key == "coverage90" else "number") for key, title in _METRICS.items()),
        ("plan", "sees the plan", "text"), ("parameters", "size", "count"), ("seconds", "training", "seconds"),
    )  # fmt: skip
    caption = f"{_TITLES.get(name, name)}: mean ± standard deviation over seeds. RMSE of the mean, MAE of the median."
    return ReportTable(f"comparison-{name}", caption, heads, tuple(rows), lowest=("rmse", "mae", "crps", "nll"))


def _own_row(own: ModelResult) -> dict[str, Any]:
    """The model itself in the columns of the baselines."""
    scores, use = own.evaluation.scores[own.name], own.evaluation.command_use.get(own.name)
    ratio = use.plans["shuffled"].rmse_ratio.estimate if use and "shuffled" in use.plans else None
    metrics = {key: scores.get(key) for key in _METRICS}
    return {"model": THIS_MODEL, "seeds": 1, **metrics, "command_use": ratio, "plan": "yes"}


def _paper(found: Artefacts) -> ReportTable:
    """Method, source RMSE, target RMSE, target NLL, notes: the layout of the paper's transfer table."""
    rows: list[dict[str, Any]] = []
    for row in found.comparison["rows"]:
        if not row["seeds"]:
            rows.append({"method": row["model"], "notes": row["remark"]})
            continue
        plan = "command-cond." if row["uses_future_commands"] else "no plan"
        rows.append(
            {
                "method": row["model"], "source": _value(row, "source.rmse"), "target": _value(row, "target.rmse"),
                "nll": row["mean"].get("target.nll"), "windows": _windows(found, row["model"]),
                "notes": f"{plan}; {plural(row['seeds'], 'seed')}; source: test side",
            }
        )  # fmt: skip
    if found.study is not None:
        rows += [*_locked(found, found.study), *_declared(found.study)]
    judged = {row["windows"] for row in rows if row.get("windows")}
    heads = columns(
        ("method", "Method", "text"), ("source", "Source RMSE"), ("target", "Target zero-shot RMSE"),
        ("nll", "Target NLL"), ("windows", "target windows", "count"), ("notes", "Notes", "text"),
    )  # fmt: skip
    caption = "Zero-shot transfer in the paper's layout. NLL contains its constant, 0.919. " + (
        "Rows were judged on different windows: only those with as many windows compare, and none is in bold."
        if len(judged) > 1
        else "Lowest target RMSE in bold."
    )
    lowest = () if len(judged) > 1 else ("target",)
    return ReportTable("transfer", caption, heads, tuple(rows), label="target", lowest=lowest, folded=True)


def _windows(found: Artefacts, model: str) -> int | None:
    """How many target windows every run of a model was judged on, where the comparison kept that."""
    runs = [one for one in found.comparison.get("results") or [] if one["model"] == model]
    counts = {one["scores"]["target"]["windows"] for one in runs if "target" in one["scores"]}
    return counts.pop() if len(counts) == 1 else None


def _locked(found: Artefacts, study: StudyFacts) -> list[dict[str, Any]]:
    """The single declared pass of the locked model, with its candidate's error on source validation."""
    known = found.on_target()
    if study.lock is None or study.confirmatory is None or known is None:
        return []
    return [
        {
            "method": "World model (locked)", "source": study.clean_rmse(study.lock["candidate"]),
            "target": plain(known.evaluation.intervals[known.name]["rmse"]),
            "nll": known.evaluation.scores[known.name]["nll"], "windows": known.evaluation.windows,
            "notes": "probabilistic, command-cond.; single declared pass, 95 % over runs; source: validation",
        }
    ]  # fmt: skip


def _declared(study: StudyFacts) -> list[dict[str, Any]]:
    """The variants of every declared ablation that was opened, over their seeds; its control is the locked model."""
    rows = []
    for entry in study.entries("declaration"):
        plan = Declaration.recorded(entry.content)
        opening = next((one for one in study.openings if one.purpose == f"declared: {plan.name}"), None)
        for arm in list(plan.arms)[1:] if opening else []:
            assert opening is not None
            scores = opening.scores_of(plan.candidate(arm))
            nll = over_seeds([one.get("nll") for one in scores])
            rows.append(
                {
                    "method": f"World model + {arm} (post-lock)", "source": study.clean_rmse(plan.candidate(arm)),
                    "target": over_seeds([one.get("rmse") for one in scores]),
                    "nll": nll and nll["estimate"], "windows": opening.result.windows,
                    "notes": f"probabilistic, command-cond.; {plural(len(scores), 'seed')}, diagnostic; "
                    "source: validation",
                }
            )  # fmt: skip
    return rows
