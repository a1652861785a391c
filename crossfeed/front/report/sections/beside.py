"""Results that lie beside a study or a run: adaptation, baselines, learning curve, what-if, plans."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from crossfeed.evaluation.baselines.results import HEADINGS, TITLES, set_table
from crossfeed.files import plain
from crossfeed.front.report.artefacts import Artefacts, ModelResult
from crossfeed.front.report.page import Block, FigureChoice, Note
from crossfeed.front.report.sections.verdict import against_rivals
from crossfeed.front.report.study_facts import StudyFacts, over_seeds
from crossfeed.model.model_file import FLEET
from crossfeed.scenarios.figure import figures as what_if_figures
from crossfeed.show.figures import Dot, Dots, Figure
from crossfeed.show.tables import ResultTable, columns, plural
from crossfeed.study.record.declaration import Declaration

THIS_MODEL = "this model"
Result = TypeVar("Result")


def adaptation(found: Artefacts) -> list[Block]:
    """What a little data of the new machine brings: few-shot and online, whichever was measured."""
    result = found.adaptation
    blocks: list[Block] = []
    if result.not_possible:
        blocks.append(Note(f"Adaptation was not possible: {result.not_possible}", "fair"))
    for figure, table in zip(result.figures(), result.tables(), strict=True):
        blocks += [figure, table]
    return blocks


def comparison(found: Artefacts) -> list[Block]:
    """Baselines on the same windows, and the paper's table of transfer results."""
    compared = found.comparison
    if compared is None or not compared.rows:
        return []
    blocks: list[Block] = [_compared(found)]
    if told := against_rivals(found):
        blocks.append(Note(told, "fair" if "as good or better" in told else "good"))
    for name in compared.sets:
        table, own = set_table(compared, name), _own(found, name)
        blocks.append(replace(table, rows=(_own_row(own), *table.rows)) if own else table)
    if "target" in compared.sets:
        blocks.append(_transfer(found))
    if compared.notes:
        blocks.append(Note(" ".join(compared.notes)))
    blocks += [Note(f"{row.model}: {row.remark}", "fair") for row in compared.rows if row.remark]
    return blocks


def _own(found: Artefacts, name: str) -> ModelResult | None:
    return found.on_target() if name == "target" else found.on_source()


def _compared(found: Artefacts) -> Figure:
    assert found.comparison is not None
    rows, panels = [row for row in found.comparison.rows if row.seeds], list[Dots]()
    for name in found.comparison.sets:
        column, own = f"{name}.rmse", _own(found, name)
        dots = [Dot(None)] if own else []
        for row in rows:
            mean, spread = row.mean[column], row.spread[column]
            known = mean is not None and spread is not None
            dots.append(Dot(mean, mean - spread, mean + spread) if known else Dot(mean))  # type: ignore[operator]
        floor = next((row.mean[column] for row in rows if row.model == "persistence"), None)
        models, series = [row.model for row in rows], [("baselines", 0, tuple(dots))]
        if own:
            this = Dot.of(own.evaluation.intervals[own.name]["rmse"])
            series.append((THIS_MODEL, 1, (this, *(Dot(None) for _ in rows))))
            models.insert(0, THIS_MODEL)
        limits = (0.0, 2.5 * floor) if floor is not None else None
        panels.append(Dots(TITLES.get(name, name), "RMSE (z-units)", tuple(models), tuple(series), floor, limits))
    caption = (
        "RMSE of every model: of baselines mean and standard deviation over seeds, of this model the 95 % interval "
        "over runs where it was judged on that side. The dotted line is persistence."
    )
    return Figure("comparison", caption, tuple(panels), ((THIS_MODEL, 1, "points"), ("baselines", 0, "points")))


def _own_row(own: ModelResult) -> dict[str, Any]:
    """The model itself in the columns of the baselines."""
    scores, use = own.evaluation.scores[own.name], own.evaluation.command_use.get(own.name)
    ratio = use.plans["shuffled"].rmse_ratio.estimate if use and "shuffled" in use.plans else None
    metrics = {key: scores.get(key) for key in HEADINGS}
    return {"model": THIS_MODEL, "seeds": 1, **metrics, "command_use": ratio, "plan": "yes"}


def _transfer(found: Artefacts) -> ResultTable:
    """Method, source RMSE, target RMSE, target NLL, notes: the layout of the paper's transfer table."""
    assert found.comparison is not None
    rows: list[dict[str, Any]] = []
    for row in found.comparison.rows:
        if not row.seeds:
            rows.append({"method": row.model, "notes": row.remark})
            continue
        plan = "command-cond." if row.uses_future_commands else "no plan"
        rows.append(
            {
                "method": row.model, "source": row.cell("source.rmse"), "target": row.cell("target.rmse"),
                "nll": row.mean.get("target.nll"), "windows": row.windows.get("target"),
                "notes": f"{plan}; {plural(row.seeds, 'seed')}; source: test side",
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
    return ResultTable("transfer", caption, heads, tuple(rows), label="target", lowest=lowest, folded=True)


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


def curve(found: Artefacts) -> list[Block]:
    """How good each model is after so many minutes of the machine's own logs."""
    drawn = found.curve
    if drawn is None or not drawn.points:
        return []
    ahead = [one for one in drawn.crossings if one.by is not None]
    blocks: list[Block] = [*drawn.figures(), *(Note(f"{one.words}.", "fair") for one in ahead)]
    if FLEET in drawn.models and not ahead:
        blocks.append(Note("Nobody overtakes the fleet within these minutes.", "good"))
    blocks += [drawn.tables()[-1], Note(" ".join(drawn.notes))]
    return blocks


def what_if(found: Artefacts) -> list[Block]:
    """Several plans for the same machine from the same moment, with energy and peaks; one part for each forecast."""
    blocks: list[Block] = []
    for suffix, answer in _numbered(found.forecasts):
        figures = {name: replace(one, name=f"{one.name}{suffix}") for name, one in what_if_figures(answer).items()}
        blocks += [Note(warning, "fair") for warning in answer.all_warnings]
        if figures:
            blocks.append(FigureChoice(f"what-if-channel{suffix}", "Channel", figures, next(iter(figures))))
        if all(plan.energy is None for plan in answer.plans.values()):
            told = "No power is measured on this machine, so no plan has an energy; peaks stand in for it."
            blocks.append(Note(told))
        plans, peaks = answer.tables()
        blocks.append(replace(plans, name=f"{plans.name}{suffix}"))
        blocks += [replace(peaks, name=f"{peaks.name}{suffix}", remarks=())] if peaks.rows else []
    return blocks


def decisions(found: Artefacts) -> list[Block]:
    """What overrides would save, how surely, where the program was left alone, and whether that was right."""
    blocks: list[Block] = []
    for suffix, plan in _numbered([plan for plan in found.decisions if plan.blocks]):
        blocks.append(Note(f"{plan.program}: {plan.verdict}", "good"))
        blocks += [Note(warning, "fair") for warning in plan.warnings]
        blocks += [Note(trouble, "bad") for trouble in plan.troubles]
        blocks += [replace(figure, name=f"{figure.name}{suffix}") for figure in plan.figures()]
        blocks += [replace(table, name=f"{table.name}{suffix}") for table in plan.tables()[:2]]
    return blocks


def _numbered(results: Sequence[Result]) -> list[tuple[str, Result]]:
    """Each result with what tells its tables and figures from those of the others."""
    return [("" if number == 1 else f"-{number}", result) for number, result in enumerate(results, start=1)]
