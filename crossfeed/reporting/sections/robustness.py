"""How the forecast bears broken, missing and slower sensors."""

from collections.abc import Mapping
from typing import Any

from crossfeed.evaluation.result import Evaluation
from crossfeed.evaluation.statistics import Interval
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, ReportTable, Section, columns, section
from crossfeed.reporting.panels import XY, Dot, Dots, Line

_SEVERITIES = ("light", "medium", "heavy")
_COLOURS = {"light": 2, "medium": 4, "heavy": 1}


def sections(found: Artefacts) -> list[Section]:
    """The full suite, on the target if it was run there, else on the source."""
    both = (found.evaluation(own=False), found.evaluation(own=True))
    chosen = next((one for one in both if one and one.robustness), None)
    name = chosen.model.name if chosen and chosen.model else ""
    content = (chosen.robustness or {}).get(name) if chosen else None
    if chosen is None or content is None:
        return []
    rows = {corruption: row for corruption, row in content.items() if isinstance(row, Mapping) and "light" in row}
    panels: list[XY | Dots] = [_corruptions(rows)]
    panels += _curves(chosen, name)
    where = "source" if chosen.trained_on_this_table else "target"
    caption = (
        f"{content['windows']} windows of the {where}: error under each corruption over the error without it; what "
        "hidden channels and a slower logger cost."
    )
    legend = tuple((severity, _COLOURS[severity], "points") for severity in _SEVERITIES)
    blocks: list[Block] = [Figure("robustness", caption, tuple(panels), legend), _table(rows, content)]
    lead = (
        "The context is corrupted, the truth stays. A ratio of 1 is unharmed; coverage should stay near 90 % even "
        "where the error grows, or the model does not know that it does not know."
    )
    return section("robustness", "Robustness", lead, blocks)


def _corruptions(rows: Mapping[str, Any]) -> Dots:
    series = []
    for severity in _SEVERITIES:
        ratios = [row[severity].get("rmse_ratio") for row in rows.values()]
        dots = tuple(Dot.of(Interval(**ratio) if ratio else None) for ratio in ratios)
        series.append((severity, _COLOURS[severity], dots))
    return Dots("RMSE over clean RMSE", "ratio", tuple(rows), tuple(series), reference=1.0, limits=(0.5, 4.0))


def _curves(found: Evaluation, name: str) -> list[XY]:
    panels = []
    curve = (found.channel_curve or {}).get(name, {})
    points = [(int(size), row["ratio"]) for size, rows in curve.items() if size.isdigit() for row in rows]
    if points:
        line = Line("draws of channels", [x for x, _ in points], [y for _, y in points], 0, "points")
        panels.append(
            XY("Only some channels visible", "visible channels", "RMSE / all visible", (line,), level=(1.0, "unharmed"))
        )
    slower = (found.slower_logging or {}).get(name, {})
    rows = [
        (int(factor), row["rmse_ratio"]["estimate"])
        for factor, row in slower.items()
        if factor.isdigit() and "rmse_ratio" in row
    ]
    if rows:
        line = Line("slower logging", [x for x, _ in rows], [y for _, y in rows], 0)
        panels.append(XY("A slower logger", "times the period", "RMSE / clean", (line,), level=(1.0, "unharmed")))
    return panels


def _table(rows: Mapping[str, Any], content: Mapping[str, Any]) -> ReportTable:
    listed = []
    for corruption, row in rows.items():
        line: dict[str, Any] = {"corruption": corruption, "meaning": row["meaning"]}
        for severity in _SEVERITIES:
            line[f"{severity}_ratio"] = row[severity].get("rmse_ratio") or "failed"
            line[f"{severity}_coverage"] = row[severity].get("coverage90")
        listed.append(line)
    heads = [("corruption", "corruption", "text"), ("meaning", "what it is", "text")]
    for severity in _SEVERITIES:
        heads += [
            (f"{severity}_ratio", f"{severity}: RMSE ratio", "interval"),
            (f"{severity}_coverage", f"{severity}: in 90 %", "share"),
        ]
    clean = content["clean"]
    caption = f"Every corruption in numbers: clean RMSE {clean['rmse']:.3f}, ratios with 95 % intervals over runs."
    return ReportTable("robustness", caption, columns(*heads), tuple(listed), folded=True)
