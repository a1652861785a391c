"""A forecast as a table on a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from crossfeed.progress import output
from crossfeed.serving.figure import main_sensors


def show(content: Mapping[str, Any]) -> None:
    """Print one column per plan: how long, how much energy, how high the main sensors go; then the warnings."""
    past = content["history"]
    title = (
        f"{past['machine']}, session {past['session']} from {past['at']:g} s on: "
        f"{content['settings']['samples']} sampled futures, 90 % intervals"
    )
    table = Table("", *(escape(name) for name in content["plans"]), title=escape(title), title_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for label, cells in _rows(content):
        table.add_row(label, *cells)
    output().print(table)
    remarks = [("", warning) for warning in content["warnings"]]
    remarks += [(f"{name}: ", warning) for name, plan in content["plans"].items() for warning in plan["warnings"]]
    console = output()
    for comparison in content["comparisons"]:
        console.print(escape(comparison["reading"]) + ".", highlight=False)
    if content["comparisons"]:
        console.print("Differences hold the chance of the futures, not what the model has not learned about commands.")
    for whose, warning in remarks:
        console.print(f"[yellow]warning:[/] {escape(whose + warning)}")


def _rows(content: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Label and one cell per plan."""
    plans = content["plans"]
    first = next(iter(plans.values()))
    yield "duration", [f"{plan['duration']:g} s" for plan in plans.values()]
    if first["energy"]:
        yield f"energy in {first['energy']['unit']}", [_interval(plan["energy"]) for plan in plans.values()]
        if any(plan["energy"]["truth"] is not None for plan in plans.values()):
            yield "  true", [_number(plan["energy"]["truth"]) for plan in plans.values()]
    if content["comparisons"]:
        differences = {row["second"]: row for row in content["comparisons"]}
        yield "  to the first", [_interval(differences.get(name), "+") for name in plans]
    for sensor in main_sensors(content):
        peaks = [plan["peaks"][sensor] for plan in plans.values()]
        yield f"peak {sensor} in {peaks[0]['unit']}", [_interval(peak) for peak in peaks]
        if peaks[0]["limit"] is not None:
            yield f"  P(above {peaks[0]['limit']:g})", [f"{peak['probability']:.0%}" for peak in peaks]


def _interval(estimate: Mapping[str, float] | None, sign: str = "") -> str:
    if estimate is None:
        return "-"
    return f"{estimate['mean']:{sign}.3g} ({estimate['low']:{sign}.3g} to {estimate['high']:{sign}.3g})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
