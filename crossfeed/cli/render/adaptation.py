"""An adaptation on a terminal: few-shot and online beside zero-shot."""

from rich.console import Console

from crossfeed.adaptation.result import AdaptationResult, FewShotResult, OnlineResult
from crossfeed.cli.render.grid import estimate, grid, number, say_absent
from crossfeed.progress import output

METRICS = {"rmse": "RMSE", "mae": "MAE", "r2": "R2", "crps": "CRPS", "nll": "NLL", "coverage90": "cover 90 %"}
RATIO = "RMSE / zero-shot, 95 % over runs"


def show_adaptation(result: AdaptationResult) -> None:
    """Print what was gained, and where the adapted models lie."""
    console = output()
    if result.few_shot is not None:
        _few_shot(console, result.few_shot)
    if result.online is not None:
        _online(console, result.online, result.windows)
    if result.sensors_taken_in:
        console.print(_taken_in(result), highlight=False)
    say_absent(console, result.absent_commands)
    for path in result.models:
        console.print(f"model: {path}", markup=False, soft_wrap=True, highlight=False)
    if not result.models:
        console.print(f"No model was kept: {_why_none(result)}.", highlight=False)


def _few_shot(console: Console, result: FewShotResult) -> None:
    judged = "each judged on what follows it" if result.config.get("query") == "each" else "one query for all"
    table = grid(
        f"Few-shot ({result.config['mode']}): {judged}",
        ["support", "windows", "query", *METRICS.values(), RATIO],
        words=0,
    )
    for row in result.fractions:
        values = (number(row.metrics[name]) for name in METRICS)
        counts = (str(row.support_windows), str(row.query_windows))
        table.add_row(f"{row.fraction:.0%}", *counts, *values, estimate(row.rmse_ratio))
    console.print(table)
    for row in result.fractions:
        lacking = f"no support from {', '.join(row.runs_without_support)}" if row.runs_without_support else ""
        if row.remark or lacking:
            console.print(f"{row.fraction:.0%}: {row.remark or lacking}", highlight=False)
    if result.runs_without_query:
        console.print(f"No query windows in {', '.join(result.runs_without_query)}", highlight=False)


def _why_none(result: AdaptationResult) -> str:
    learned = result.few_shot is None or any(row.updates for row in result.few_shot.fractions)
    return "give --out FOLDER to keep what was learned" if learned else "there was nothing to learn from"


def _taken_in(result: AdaptationResult) -> str:
    """The sensors that the model had never met, and how well it forecasts them before and after."""
    names = result.sensors_taken_in
    if result.few_shot is None:
        return f"Taken in, though never met before: {', '.join(names)}"
    before, after = result.few_shot.fractions[0].sensors, result.few_shot.fractions[-1].sensors
    told = (f"{name} {number(before[name])} -> {number(after[name])}" for name in names if name in before)
    return f"Taken in, though never met before (CRPS before and after): {', '.join(told) or ', '.join(names)}"


def _online(console: Console, result: OnlineResult, windows: int) -> None:
    title = f"Online ({result.config['mode']}), prequential: {windows} windows, {result.updates} updates"
    table = grid(title, ["", *METRICS.values(), RATIO])
    table.add_row("zero-shot", *(number(result.zero_shot[name]) for name in METRICS), "")
    table.add_row("online", *(number(result.online[name]) for name in METRICS), estimate(result.rmse_ratio))
    console.print(table)
    tracked = ", ".join(f"{float(level):.0%}: {number(share)}" for level, share in result.tracked_coverage.items())
    console.print(f"Coverage of intervals tracked while running: {tracked}", highlight=False)
