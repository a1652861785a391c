"""A forecast on a terminal: one column per plan."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.markup import escape

from crossfeed.cli.render.grid import MISSING, grid, short
from crossfeed.progress import output
from crossfeed.serving.figure import main_sensors


def show_forecast(content: Mapping[str, Any]) -> None:
    """Print how long each plan takes, how much energy, how high the main sensors go; then the warnings."""
    past, console = content["history"], output()
    title = (
        f"{past['machine']}, session {past['session']} from {past['at']:g} s on: "
        f"{content['settings']['samples']} sampled futures, 90 % intervals"
    )
    table = grid(escape(title), ["", *(escape(name) for name in content["plans"])])
    for label, cells in _rows(content):
        table.add_row(label, *cells)
    console.print(table)
    for comparison in content["comparisons"]:
        console.print(escape(comparison["reading"]) + ".", highlight=False)
    if content["comparisons"]:
        console.print("Differences hold the chance of the futures, not what the model has not learned about commands.")
    remarks = [("", warning) for warning in content["warnings"]]
    remarks += [(f"{name}: ", warning) for name, plan in content["plans"].items() for warning in plan["warnings"]]
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
            yield "  true", [short(plan["energy"]["truth"]) for plan in plans.values()]
    if content["comparisons"]:
        differences = {row["second"]: row for row in content["comparisons"]}
        yield "  to the first", [_interval(differences.get(name), "+") for name in plans]
    for sensor in main_sensors(content):
        peaks = [plan["peaks"][sensor] for plan in plans.values()]
        yield f"peak {sensor} in {peaks[0]['unit']}", [_interval(peak) for peak in peaks]
        if peaks[0]["limit"] is not None:
            yield f"  P(above {peaks[0]['limit']:g})", [f"{peak['probability']:.0%}" for peak in peaks]


def _interval(found: Mapping[str, float] | None, sign: str = "") -> str:
    if found is None:
        return MISSING
    mean, low, high = (short(found[name], sign) for name in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"
