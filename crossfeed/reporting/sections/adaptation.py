"""What a little data of the new machine brings: few-shot curves and learning while the machine runs."""

from crossfeed.adaptation.result import FewShotResult, OnlineResult
from crossfeed.json_file import plain
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, Note, ReportTable, Section, columns, section
from crossfeed.reporting.panels import XY, Dot, Dots, Line

_METRICS = ("rmse", "mae", "r2", "crps", "nll", "coverage90")


def sections(found: Artefacts) -> list[Section]:
    """Few-shot and online, whichever was measured."""
    result = found.adaptation
    blocks: list[Block] = []
    if result.not_possible:
        blocks.append(Note(f"Adaptation was not possible: {result.not_possible}", "fair"))
    if result.few_shot is not None:
        blocks += _few_shot(result.few_shot)
    if result.online is not None:
        blocks += _online(result.online)
    lead = (
        "Fraction 0 is the model as it came. Each point learns from the first part of every run and is judged on later "
        "rows, so the curve should fall to the right; where it rises, adapting does harm."
    )
    return section("adaptation", "Few-shot and online adaptation", lead, blocks)


def _few_shot(result: FewShotResult) -> list[Block]:
    rows = result.fractions
    fractions = [100.0 * row.fraction for row in rows]
    per_run = sorted({run for row in rows for run in row.runs})
    runs = tuple(Line(run, fractions, [row.runs.get(run) for row in rows], 5, "dashed") for run in per_run)
    inside = [row.metrics["coverage90"] for row in rows]
    panels = (
        XY("RMSE on the query", "per cent of each run learned from", "RMSE (z-units)",
           (*runs, Line("all runs", fractions, [row.metrics["rmse"] for row in rows], 0, "marked"))),
        XY("CRPS", "per cent of each run learned from", "CRPS (z-units)",
           (Line("all runs", fractions, [row.metrics["crps"] for row in rows], 0, "marked"),)),
        XY("Share inside the 90 % interval", "per cent of each run learned from", "share",
           (Line("all runs", fractions, inside, 0, "marked"),), level=(0.9, "nominal")),
    )  # fmt: skip
    caption = f"Few-shot adaptation ({result.config['mode']}): thick the pooled error, thin each run."
    legend = (("all runs", 0, "line"), ("single runs", 5, "dashed"))
    table = tuple(
        {
            "fraction": row.fraction, "support": row.support_windows, "query": row.query_windows,
            "updates": row.updates,
            **{name: row.metrics[name] for name in _METRICS}, "ratio": plain(row.rmse_ratio), "remark": row.remark,
        }
        for row in rows
    )  # fmt: skip
    heads = columns(
        ("fraction", "learned from", "share"), ("support", "windows", "count"), ("query", "judged on", "count"),
        ("updates", "updates", "count"),
        ("rmse", "RMSE"), ("mae", "MAE"), ("r2", "R²", "number", "$R^2$"), ("crps", "CRPS"), ("nll", "NLL"),
        ("coverage90", "in 90 %", "share"), ("ratio", "RMSE / zero-shot (95 % over runs)", "interval", "RMSE ratio"),
        ("remark", "remark", "text"),
    )  # fmt: skip
    if result.config.get("query") == "each":
        told = "Few-shot as in the paper: each fraction is judged on the windows after it, so rows have other windows."
    else:
        told = "Few-shot, one query for every fraction: the windows after the largest."
    return [
        Figure("few-shot", caption, panels, legend),
        ReportTable("few-shot", told, heads, table, lowest=("rmse", "mae", "crps", "nll")),
    ]


def _online(result: OnlineResult) -> list[Block]:
    horizons = result.by_horizon
    steps = [int(label) for label in horizons]
    runs = result.by_run
    panels = (
        XY("Online: RMSE by horizon", "rows ahead", "RMSE (z-units)",
           tuple(Line(title, steps, [row[key] for row in horizons.values()], colour, "marked")
                 for key, title, colour in (("zero_shot", "frozen", 1), ("online", "online", 0))), from_zero=True),
        Dots("Online: RMSE by run", "RMSE (z-units)", tuple(runs),
             tuple((title, colour, tuple(Dot(row[key]) for row in runs.values()))
                   for key, title, colour in (("zero_shot", "frozen", 1), ("online", "online", 0)))),
    )  # fmt: skip
    rows = tuple(
        {
            "model": title, **{name: metrics[name] for name in _METRICS},
            "ratio": plain(result.rmse_ratio) if title == "online" else None,
        }
        for title, metrics in (("frozen", result.zero_shot), ("online", result.online))
    )  # fmt: skip
    heads = columns(
        ("model", "model", "text"), ("rmse", "RMSE"), ("mae", "MAE"), ("r2", "R²", "number", "$R^2$"), ("crps", "CRPS"),
        ("nll", "NLL"), ("coverage90", "in 90 %", "share"),
        ("ratio", "RMSE / frozen (95 % over runs)", "interval", "RMSE ratio"),
    )  # fmt: skip
    tracked = ", ".join(f"{float(level):.0%}: {share:.1%}" for level, share in result.tracked_coverage.items())
    caption = "Learning while the machine runs: each forecast is made before its outcome is learned from."
    told = f"Online adaptation, {result.updates:,} updates. Coverage of intervals tracked while running: {tracked}."
    legend = (("frozen", 1, "line"), ("online", 0, "line"))
    return [Figure("online", caption, panels, legend), ReportTable("online", told, heads, rows)]
