"""Does the forecast listen to the planned commands, and does it foresee what other commands would do?"""

from collections.abc import Mapping
from typing import Any

from crossfeed.evaluation.records import CommandUse
from crossfeed.evaluation.statistics import Interval
from crossfeed.json_file import plain
from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, ReportTable, Section, columns, section
from crossfeed.reporting.numbers import number
from crossfeed.reporting.panels import Dot, Dots


def sections(found: Artefacts) -> list[Section]:
    """Command use on the target (else on the source), and counterfactuals where a simulator gave the truth."""
    blocks: list[Block] = []
    known = found.on_target() or found.on_source()
    use = known.evaluation.command_use.get(known.name) if known else None
    if use:
        blocks += [_figure(use), _table(use)]
    for one in found.evaluations:
        if one.counterfactual is not None:
            blocks += _counterfactual(one.counterfactual)
    lead = (
        "The forecast is shown a false plan while the truth stays. A forecast that listens gets worse: a ratio of 1 "
        "means not listened to. Late and early plans must both cost something, or command and state are off by one row."
    )
    return section("commands", "Command use and counterfactuals", lead, blocks)


def _figure(use: CommandUse) -> Figure:
    plans = {name: Dot.of(plan.rmse_ratio) for name, plan in use.plans.items()}
    channels = {name: Dot.of(ratio) for name, ratio in use.shuffled_by_channel.items()}
    panels = [
        Dots.single_series(title, label, "ratio", dots, reference=1.0, limits=(0.5, 4.0))
        for title, label, dots in (
            ("All channels together", "RMSE under the false plan / true plan", plans),
            ("Shuffled plan, channel by channel", "RMSE ratio", channels),
        )
        if dots
    ]
    caption = "Dots right of the dotted line: the plan matters. 95 % intervals over runs."
    return Figure("command-use", caption, tuple(panels))


def _table(use: CommandUse) -> ReportTable:
    rows = tuple(
        {"plan": name, **plain(plan), "worse": f"{plan.runs_worse} of {plan.runs}"} for name, plan in use.plans.items()
    )
    heads = columns(
        ("plan", "false plan", "text"), ("meaning", "what it is", "text"), ("rmse", "RMSE"),
        ("rmse_ratio", "RMSE ratio (95 % over runs)", "interval", "RMSE ratio"),
        ("crps_ratio", "CRPS ratio", "interval", "CRPS ratio"), ("worse", "runs that got worse", "text"),
    )  # fmt: skip
    true = number(use.true_rmse)
    caption = f"Errors under false plans, {use.windows:,} windows; the RMSE under the true plan is {true}."
    return ReportTable("command-use", caption, heads, rows)


def _counterfactual(content: Mapping[str, Any]) -> list[Block]:
    rows = {name: row for name, row in content.items() if isinstance(row, Mapping) and "effect_r2" in row}
    panel = Dots.single_series(
        f"Effect foreseen on {content['machine']}", "R² of the predicted change (1 = all of it)", "effect",
        {name: Dot.of(Interval(**row["effect_r2"])) for name, row in rows.items()}, reference=0.0, limits=(-1.0, 1.0),
    )  # fmt: skip
    listed = tuple(
        {
            "plan": name, "meaning": row["meaning"], "rmse": row["rmse"], "not_told": row["rmse_not_told"],
            "persistence": row["rmse_persistence"], "effect": row["effect_r2"],
        }
        for name, row in rows.items()
    )  # fmt: skip
    heads = columns(
        ("plan", "changed plan", "text"), ("meaning", "what it is", "text"), ("rmse", "RMSE"),
        ("not_told", "RMSE, change not told"), ("persistence", "persistence"),
        ("effect", "effect foreseen, R² (95 % over jobs)", "interval", "Effect $R^2$"),
    )  # fmt: skip
    caption = (
        f"{content['cases']} moments of {len(content['jobs'])} jobs, rolled out by the simulator as they were and "
        "under changed plans: the truth about commands."
    )
    figure = Figure("counterfactual", "How much of the true effect of a changed plan is foreseen.", (panel,))
    return [figure, ReportTable("counterfactual", caption, heads, listed)]
