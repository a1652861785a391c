"""What was judged on source and target: errors, calibration, use of commands, forecasts, robustness."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crossfeed.evaluation.result import Evaluation
from crossfeed.evaluation.result_view import HEADLINE, LOWEST, fan_charts, headline, horizon_panel, legend_of, size
from crossfeed.front.report.artefacts import Artefacts, ModelResult
from crossfeed.front.report.page import Block, FigureChoice, Note
from crossfeed.show.figures import Figure
from crossfeed.show.tables import ResultTable

_SPACE = "Errors in z-units of the source's train rows; in brackets 95 % over"


def errors(found: Artefacts) -> list[Block]:
    """The headlines of source and target."""
    blocks: list[Block] = []
    own, known = found.evaluation(own=True), found.on_target()
    if own is not None:
        caption = f"Source machine, {own.part} side, never learned from: {size(own)}. {_SPACE} {own.unit}s."
        blocks.append(replace(headline(own), name="source", label="source", caption=caption))
    elif found.run is not None and found.run.summary:
        blocks.append(_validation(found.run.summary["validation"]))
    if known is not None:
        sealed = "opened once after the lock" if found.study and found.study.confirmatory else "an open evaluation"
        caption = f"Target machine, zero-shot, {sealed}: {size(known.evaluation)}. {_SPACE} runs."
        blocks.append(replace(headline(known.evaluation), name="target", label="target", caption=caption))
        blocks += _tests(known)
        blocks += [Note(f"{who} is left out: {why}", "fair") for who, why in known.evaluation.excluded.items()]
    return blocks


def _validation(validation: Mapping[str, Any]) -> ResultTable:
    keys = ("forecaster", "rmse", "mae", "crps", "nll", "coverage90")
    rows = tuple(
        {"forecaster": name, **{key: row.get(key) for key in keys[1:]}}
        for name, row in validation.items()
        if isinstance(row, Mapping) and "rmse" in row
    )
    caption = (
        f"Source validation, {validation['windows']:,} windows, z-units: these windows chose the epoch, so they "
        "flatter. The test side is judged by crossfeed evaluate."
    )
    heads = tuple(column for column in HEADLINE if column.key in keys)
    return ResultTable("source-validation", caption, heads, rows, lowest=LOWEST)


def _tests(known: ModelResult) -> list[Block]:
    pairs = [
        f"{one.second}: better in {one.wins} of {one.units} runs, {one.verdict}"
        for rows in known.evaluation.comparisons
        for one in rows
        if one.first == known.name
    ]
    if not pairs:
        return []
    return [Note(f"{known.name} run by run (exact sign-flip test, Holm): against {'; against '.join(pairs)}.")]


def details(found: Artefacts) -> list[Block]:
    """Where the errors lie."""
    sides = {side: one for side, one in (("target", found.on_target()), ("source", found.on_source())) if one}
    if not sides:
        return []
    first = next(iter(sides.values()))
    panels = tuple(horizon_panel(one.evaluation, one.name, f"RMSE by horizon: {side}") for side, one in sides.items())
    caption = "Errors grow with the distance; the model should grow slower than the floors."
    blocks: list[Block] = [Figure("by-horizon", caption, panels, legend_of(panels)), *first.figures("by-channel")]
    for side, one in sides.items():
        caption = f"Channels of the {side} in their own units."
        blocks += [
            replace(table, name=f"by-channel-{side}", caption=caption, folded=side == "source")
            for table in one.tables("by-channel")
        ]
    blocks += first.tables("by-regime-and-run")
    return blocks


def calibration(found: Artefacts) -> list[Block]:
    """Are the probabilities right? On the target, or on the source while the target is sealed."""
    known = found.on_target() or found.on_source()
    measured = known.evaluation.calibration.get(known.name) if known else None
    if known is None or measured is None:
        return []
    blocks: list[Block] = [Note(f"Reading of the histogram: {measured.reading}.")]
    blocks += known.figures("calibration", "calibration-by-regime")
    blocks += known.tables("calibration") if measured.by_regime else []
    # Conformal layers are measured by the full suite of an evaluation, never in a sealed pass.
    other = _judged(found.evaluation(own=False))
    blocks += known.tables("conformal") or (other.tables("conformal") if other else [])
    return blocks


def commands(found: Artefacts) -> list[Block]:
    """Command use on the target (else on the source), and counterfactuals where a simulator gave the truth."""
    known = found.on_target() or found.on_source()
    blocks: list[Block] = [*known.figures("command-use"), *known.tables("command-use")] if known else []
    for evaluation in found.evaluations:
        one = _judged(evaluation)
        if one is not None and evaluation.counterfactual is not None:
            blocks += [*one.figures("counterfactual"), *one.tables("counterfactual")]
    return blocks


def forecasts(found: Artefacts) -> list[Block]:
    """Fan charts: forecasts of the target, else of the source, against what happened."""
    for where, known in (("target", found.on_target()), ("source", found.on_source())):
        options = fan_charts(known.evaluation, known.name) if known else {}
        if options:
            return [FigureChoice("forecast-channel", f"Channel of the {where}", options, next(iter(options)))]
    return []


def robustness(found: Artefacts) -> list[Block]:
    """How the forecast bears broken, missing and slower sensors: on the target if it was run there, else the source."""
    both = (found.evaluation(own=False), found.evaluation(own=True))
    known = next((one for one in map(_judged, both) if one is not None and one.tables("robustness")), None)
    if known is None:
        return []
    return [*known.figures("robustness"), *known.tables("robustness")]


def _judged(found: Evaluation | None) -> ModelResult | None:
    """The one model of an evaluation."""
    return ModelResult(found, found.model.name) if found and found.model and found.model.name in found.models else None
