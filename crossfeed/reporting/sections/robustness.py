"""How the forecast bears broken, missing and slower sensors."""

from collections.abc import Mapping
from typing import Any

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, ReportTable, Section, columns
from crossfeed.reporting.panels import XY, Dot, Dots, Line

_SEVERITIES = ("light", "medium", "heavy")
_COLOURS = {"light": 2, "medium": 4, "heavy": 1}


def sections(found: Artefacts) -> list[Section]:
    """The full suite, on the target if it was run there, else on the source."""
    chosen = next(
        (one for one in (found.evaluation(own=False), found.evaluation(own=True)) if one and one.get("robustness")),
        None,
    )
    if chosen is None:
        return []
    name = chosen["model"]["name"]
    content = chosen["robustness"].get(name)
    if content is None:
        return []
    rows = {corruption: row for corruption, row in content.items() if isinstance(row, Mapping) and "light" in row}
    panels: list[XY | Dots] = [_corruptions(rows)]
    panels += _curves(chosen, name)
    where = "source" if chosen.get("trained_on_this_table") else "target"
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
    return [Section("robustness", "Robustness", lead, tuple(blocks))]


def _corruptions(rows: Mapping[str, Any]) -> Dots:
    series = []
    for severity in _SEVERITIES:
        dots = []
        for row in rows.values():
            ratio = row[severity].get("rmse_ratio")
            dots.append(Dot(ratio["estimate"], ratio["low"], ratio["high"]) if ratio else Dot(None))
        series.append((severity, _COLOURS[severity], tuple(dots)))
    return Dots("RMSE over clean RMSE", "ratio", tuple(rows), tuple(series), (1.0, "unharmed"), (0.5, 4.0))


def _curves(content: Mapping[str, Any], name: str) -> list[XY]:
    panels = []
    curve = content.get("channel_curve", {}).get(name, {})
    points = [(int(size), row["ratio"]) for size, rows in curve.items() if size.isdigit() for row in rows]
    if points:
        line = Line("draws of channels", [x for x, _ in points], [y for _, y in points], 0, "points")
        panels.append(
            XY("Only some channels visible", "visible channels", "RMSE / all visible", (line,), level=(1.0, "unharmed"))
        )
    slower = content.get("slower_logging", {}).get(name, {})
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
