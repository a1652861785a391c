"""An evaluation on a terminal: tables first, the verdict as the last word."""

from typing import Any

from rich.table import Table

from crossfeed.cli.render.grid import bounds, grid, number, say_absent
from crossfeed.evaluation.corruptions import SEVERITIES
from crossfeed.evaluation.records import ChannelScores, CommandUse, Metrics
from crossfeed.evaluation.result import Evaluation
from crossfeed.evaluation.result_view import WORDS
from crossfeed.evaluation.statistics import Interval
from crossfeed.evaluation.verdict import words
from crossfeed.grid import plural
from crossfeed.progress import output

HEADLINE = {
    "rmse": "RMSE", "mae": "MAE", "r2": "R2", "skill_rmse": "skill", "crps": "CRPS", "nll": "NLL",
    "coverage90": "cover 90 %", "width90": "width 90 %",
}  # fmt: skip


def show_evaluation(found: Evaluation) -> None:
    """Print the headline, where the errors lie, whether the commands are listened to, and the verdict."""
    console = output()
    console.print(_headline(found))
    if not found.floors_have_spread:
        console.print("The floors are points: give --source, the table the model was trained on, for their spread.")
    say_absent(console, found.absent_commands)
    if found.sensors_not_read:
        console.print(
            f"[yellow]note:[/] never met before, so not read: {', '.join(found.sensors_not_read)} (a model that began "
            "with fleet judges them with --new-sensors, and takes them in with `crossfeed adapt`)",
            highlight=False,
        )
    for name, reason in found.excluded.items():
        console.print(f"[yellow]left out:[/] {name}: {reason}", highlight=False)
    for comparison in (one for rows in found.comparisons for one in rows):
        console.print(
            f"{comparison.first} against {comparison.second}: better in {comparison.wins} of "
            f"{comparison.units} {found.unit}s, {comparison.verdict}",
            highlight=False,
        )
    for model in found.models:
        console.print(_rows("By horizon", {f"h = {label}": row for label, row in found.by_horizon[model].items()}))
        console.print(_rows("By regime", found.by_regime[model]))
        console.print(_channels(found.by_channel[model]))
        if model in found.calibration:
            console.print(f"Calibration: {found.calibration[model].reading}.")
        console.print(_commands(found.command_use[model], found.unit))
        if found.counterfactual is not None:
            console.print(_counterfactual(found.counterfactual))
        if found.robustness is not None and found.conformal is not None:
            console.print(_robustness(found.robustness[model]))
            console.print(_conformal(found.conformal[model]))
        console.print("\n".join(verdict_lines(found, model)), markup=False, soft_wrap=True)


def verdict_lines(found: Evaluation, model: str) -> list[str]:
    """The answer first, then each channel with its reasons."""
    from crossfeed.reporting.sections.verdict import command_sentence, headline_sentence

    verdict = found.verdict(model)
    rows = [f"  {one.channel}: {WORDS[one.light]}, {'; '.join(one.reasons)}" for one in verdict.channels]
    told = [line for line in (headline_sentence(found, model), command_sentence(found, model)) if line]
    return [f"May it be trusted on {words(_machines(found))}? {verdict.answer}", *told, *rows]


def _machines(found: Evaluation) -> tuple[str, ...]:
    """The machines of the table, or of the runs where several tables were opened."""
    return found.table.machines if found.table else tuple(dict.fromkeys(run.split("/")[0] for run in found.runs))


def _headline(found: Evaluation) -> Table:
    part = "" if found.part == "all" else f", {found.part} side"
    windows = f"{plural(found.windows, 'window')} of {plural(len(found.runs), found.unit)}"
    title = f"{', '.join(_machines(found))}{part}: {windows}, source z-space"
    rows = [
        [name, *(metrics[key] for key in HEADLINE), bounds(found.intervals[name]["rmse"])]
        for name, metrics in found.scores.items()
    ]
    return grid(title, ["", *HEADLINE.values(), f"RMSE, 95 % over {found.unit}s"], rows)


def _rows(title: str, rows: dict[str, Metrics]) -> Table:
    cells = ([label, *(row[key] for key in HEADLINE), f"{row['count']:.0f}"] for label, row in rows.items())
    return grid(title, ["", *HEADLINE.values(), "entries"], cells)


def _channels(rows: dict[str, ChannelScores]) -> Table:
    cells = []
    for label, row in rows.items():
        own = (row.physical[name] for name in ("rmse", "mae", "bias", "width90"))
        r2 = "constant" if row.constant else row.metrics["r2"]
        cells.append([label, row.unit, *own, row.metrics["skill_rmse"], r2])
    columns = ["", "unit", "RMSE", "MAE", "bias", "width 90 %", "skill", "R2"]
    return grid("By channel, in physical units", columns, cells)


def _commands(use: CommandUse, unit: str) -> Table:
    title = f"Command use: error under a false plan over error under the true one, {use.windows:,} windows"
    rows = []
    for name, plan in use.plans.items():
        ratios = (plan.rmse_ratio.estimate, bounds(plan.rmse_ratio), plan.crps_ratio.estimate)
        rows.append([name, *ratios, f"{plan.runs_worse} of {plan.runs}"])
    return grid(title, ["plan", "RMSE ratio", f"95 % over {unit}s", "CRPS ratio", f"{unit}s worse"], rows)


def _counterfactual(content: dict[str, Any]) -> Table:
    title = (
        f"Changed plans rolled out on {content['machine']}: {content['cases']} moments of {len(content['jobs'])} jobs"
    )
    table = grid(title, ["plan", "RMSE", "plan not told", "persistence", "effect foreseen (R2)", "95 % over jobs"])
    for name, row in content.items():
        if isinstance(row, dict) and "effect_r2" in row:
            effect = Interval(**row["effect_r2"])
            values = (row["rmse"], row["rmse_not_told"], row["rmse_persistence"], effect.estimate)
            table.add_row(name, *map(number, values), bounds(effect))
    return table


def _robustness(content: dict[str, Any]) -> Table:
    title = f"Robustness: RMSE over clean RMSE (coverage at 90 %), {content['windows']:,} windows"
    table = grid(title, ["corruption", *SEVERITIES])
    for corruption, row in content.items():
        if isinstance(row, dict) and SEVERITIES[0] in row:
            table.add_row(corruption, *(_under(row[severity]) for severity in SEVERITIES))
    return table


def _under(row: dict[str, Any]) -> str:
    if "failed" in row:
        return "failed"
    inside = "" if row["coverage90"] is None else f" ({row['coverage90']:.2f})"
    return f"{row['rmse_ratio']['estimate']:.2f}{inside}"


def _conformal(content: dict[str, Any]) -> Table:
    levels = content["adaptive"]
    table = grid("Coverage with a conformal layer", ["", *(f"{100 * float(level):g} %" for level in levels)])
    for name, label in (("as_is", "as it is, on the others"), ("split", "calibrated on the first two")):
        if isinstance(content.get(name), dict):
            table.add_row(label, *(number(content[name][level]) for level in levels))
    table.add_row("tracked while running", *map(number, levels.values()))
    return table
