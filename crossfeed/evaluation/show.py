"""An evaluation as tables on a terminal."""

from typing import Any

from rich.table import Table

from crossfeed.progress import output

HEADLINE = {
    "rmse": "RMSE", "mae": "MAE", "r2": "R2", "skill_rmse": "skill", "crps": "CRPS", "nll": "NLL",
    "coverage90": "cover 90 %", "width90": "width 90 %",
}  # fmt: skip


def show(content: dict[str, Any]) -> None:
    """Print the headline, where the errors lie, and whether the commands are listened to."""
    console = output()
    model = content["model"]["name"]
    console.print(_headline(content))
    if not content["floors_have_spread"]:
        console.print("The floors are points: give --source, the table the model was trained on, for their spread.")
    for name, value in content.get("absent_commands", {}).items():
        console.print(f"[yellow]note:[/] the table has no {name}; it is taken as {value:g} throughout", highlight=False)
    for name, reason in content["excluded"].items():
        console.print(f"[yellow]left out:[/] {name}: {reason}", highlight=False)
    for comparison in (row for rows in content["comparisons"] for row in rows):
        console.print(
            f"{comparison['first']} against {comparison['second']}: better in {comparison['wins']} of "
            f"{comparison['units']} {content['unit']}s, {comparison['verdict']}",
            highlight=False,
        )
    if model not in content["scores"]:
        return
    console.print(_rows("By horizon", {f"h = {label}": row for label, row in content["by_horizon"][model].items()}))
    console.print(_rows("By regime", content["by_regime"][model]))
    console.print(_channels(content["by_channel"][model]))
    console.print(f"Calibration: {content['calibration'][model]['reading']}.")
    console.print(_commands(content["command_use"][model], content["unit"]))
    if "counterfactual" in content:
        console.print(_counterfactual(content["counterfactual"]))
    if "robustness" in content:
        console.print(_robustness(content["robustness"][model]))
        console.print(_conformal(content["conformal"][model]))


def _headline(content: dict[str, Any]) -> Table:
    runs = f"{len(content['runs'])} {content['unit']}s"
    part = "" if content["part"] == "all" else f", {content['part']} side"
    title = f"{', '.join(content['table']['machines'])}{part}: {content['windows']} windows of {runs}, source z-space"
    table = _grid(title, ["", *HEADLINE.values(), f"RMSE, 95 % over {content['unit']}s"])
    for name, metrics in content["scores"].items():
        interval = content["intervals"][name]["rmse"]
        bounds = "-" if interval["low"] is None else f"{interval['low']:.3f} to {interval['high']:.3f}"
        table.add_row(name, *(number(metrics[key]) for key in HEADLINE), bounds)
    return table


def _rows(title: str, rows: dict[str, dict[str, Any]]) -> Table:
    table = _grid(title, ["", *HEADLINE.values(), "entries"])
    for label, metrics in rows.items():
        table.add_row(label, *(number(metrics[key]) for key in HEADLINE), f"{metrics['count']:.0f}")
    return table


def _channels(rows: dict[str, dict[str, Any]]) -> Table:
    table = _grid("By channel, in physical units", ["", "unit", "RMSE", "MAE", "bias", "width 90 %", "skill", "R2"])
    for label, metrics in rows.items():
        own = metrics["physical"]
        shown = (own["rmse"], own["mae"], own["bias"], own["width90"], metrics["skill_rmse"])
        r2 = "constant" if metrics["constant"] else number(metrics["r2"])
        table.add_row(label, metrics["unit"], *(number(value) for value in shown), r2)
    return table


def _commands(content: dict[str, Any], unit: str) -> Table:
    title = f"Command use: error under a false plan over error under the true one, {content['windows']} windows"
    table = _grid(title, ["plan", "RMSE ratio", f"95 % over {unit}s", "CRPS ratio", f"{unit}s worse"])
    for condition, row in content.items():
        if "rmse_ratio" not in (row if isinstance(row, dict) else {}):
            continue
        ratio = row["rmse_ratio"]
        bounds = "-" if ratio["low"] is None else f"{ratio['low']:.3f} to {ratio['high']:.3f}"
        crps = number(row["crps_ratio"]["estimate"])
        table.add_row(condition, number(ratio["estimate"]), bounds, crps, f"{row['runs_worse']} of {row['runs']}")
    return table


def _counterfactual(content: dict[str, Any]) -> Table:
    title = (
        f"Changed plans rolled out on {content['machine']}: {content['cases']} moments of {len(content['jobs'])} jobs"
    )
    table = _grid(title, ["plan", "RMSE", "plan not told", "persistence", "effect foreseen (R2)", "95 % over jobs"])
    for name, row in content.items():
        if not isinstance(row, dict) or "effect_r2" not in row:
            continue
        effect = row["effect_r2"]
        bounds = "-" if effect["low"] is None else f"{effect['low']:.3f} to {effect['high']:.3f}"
        values = (row["rmse"], row["rmse_not_told"], row["rmse_persistence"], effect["estimate"])
        table.add_row(name, *(number(value) for value in values), bounds)
    return table


def _robustness(content: dict[str, Any]) -> Table:
    title = f"Robustness: RMSE over clean RMSE (coverage at 90 %), {content['windows']} windows"
    table = _grid(title, ["corruption", "light", "medium", "heavy"])
    for kind, row in content.items():
        if not isinstance(row, dict) or "light" not in row:
            continue
        cells = [
            "failed"
            if "failed" in row[severity]
            else f"{row[severity]['rmse_ratio']['estimate']:.2f} ({row[severity]['coverage90']:.2f})"
            for severity in ("light", "medium", "heavy")
        ]
        table.add_row(kind, *cells)
    return table


def _conformal(content: dict[str, Any]) -> Table:
    table = _grid("Coverage with a conformal layer", ["", "50 %", "80 %", "90 %", "95 %"])
    for name, label in (("as_is", "as it is, on the others"), ("split", "calibrated on the first two")):
        if isinstance(content.get(name), dict):
            table.add_row(label, *(number(content[name][level]) for level in content["adaptive"]))
    table.add_row("tracked while running", *(number(value) for value in content["adaptive"].values()))
    return table


def _grid(title: str, columns: list[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right")
    return table


def number(value: float | None) -> str:
    """Three digits that matter, a dash for what is not defined."""
    if value is None:
        return "-"
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"
