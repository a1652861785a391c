"""How good each model is after so many minutes of the machine's own logs."""

from collections.abc import Mapping, Sequence
from typing import Any

from crossfeed.learning_curve.figure import highest, positions, ticks
from crossfeed.learning_curve.result import METRICS, LearningCurve
from crossfeed.model.locate import FLEET
from crossfeed.plots import COLOURS
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns, section
from crossfeed.reporting.panels import XY, Line


def sections(found: Artefacts) -> list[Section]:
    """The learning curve, if one was drawn."""
    if not found.curve.get("points"):
        return []
    curve = LearningCurve.from_dict(found.curve)
    blocks: list[Block] = [_figure(curve)]
    ahead = [one for one in curve.crossings if one.by is not None]
    blocks += [Note(f"{one.words}.", "fair") for one in ahead]
    if FLEET in curve.models and not ahead:
        blocks.append(Note("Nobody overtakes the fleet within these minutes.", "good"))
    blocks += [_table(curve), Note(" ".join(curve.notes))]
    lead = (
        "The error after learning from the first minutes of this machine's logs, always on the same sessions. Where a "
        "model trained from nothing gets below the fleet, own logs are worth more than what the fleet knows."
    )
    return section("curve", "Minutes of own logs", lead, blocks)


def _figure(curve: LearningCurve) -> Figure:
    colours = {model: number % len(COLOURS) for number, model in enumerate(curve.models)}
    panels = tuple(
        XY(
            f"{METRICS[metric]} on {curve.machine}", "minutes of own logs",
            "share" if metric == "coverage90" else f"{METRICS[metric]} (z-units)",
            tuple(_line(curve, model, metric, colour) for model, colour in colours.items()),
            level=(0.9, "nominal") if metric == "coverage90" else None, from_zero=metric != "coverage90",
            ticks=ticks(curve), highest=None if metric == "coverage90" else highest(curve, metric),
        )
        for metric in ("crps", "rmse", "coverage90")
    )  # fmt: skip
    caption = "Mean over seeds after so many minutes of own logs; what is far above the best leaves the picture."
    return Figure("curve", caption, panels, tuple((model, colour, "line") for model, colour in colours.items()))


def _line(curve: LearningCurve, model: str, metric: str, colour: int) -> Line:
    position = positions(curve)
    points = [curve.point(model, label) for label in curve.labels]
    top = highest(curve, metric) if metric != "coverage90" else None
    values = [point.mean.get(metric) for point in points]
    shown = [None if value is None or (top is not None and value > top) else value for value in values]
    return Line(model, [position[point.minutes] for point in points], shown, colour, "marked")


def _table(curve: LearningCurve) -> ReportTable:
    rows: Sequence[Mapping[str, Any]] = [
        {**row, "minutes": row["minutes"] if row["label"] != "all" else round(row["minutes"], 1)}
        for row in curve.rows()
    ]
    heads = columns(
        ("model", "model", "text"), ("minutes", "minutes"), ("seeds", "seeds", "count"), ("crps", "CRPS"),
        ("rmse", "RMSE"), ("mae", "MAE"), ("nll", "NLL"), ("coverage90", "in 90 %", "share"),
        ("seconds", "training", "seconds"), ("kept", "fleet", "text"), ("remark", "remark", "text"),
    )  # fmt: skip
    caption = f"Every model after so many minutes; {curve.windows:,} windows of {curve.sessions} sessions."
    return ReportTable("curve", caption, heads, tuple(rows), folded=True)
