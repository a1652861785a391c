"""What plans lead to, as columns and as a table to read; it reads the content of a forecast.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from crossfeed.grid import Grid
from crossfeed.serving.figure import main_sensors
from crossfeed.serving.measures import LEVELS


def columns(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """One entry per plan, time and sensor in each column."""
    names = ("plan", "time", "sensor", "unit", "mean", *(f"q{level:g}" for level in LEVELS))
    found: dict[str, list[Any]] = {name: [] for name in names}
    for name, plan in content["plans"].items():
        for sensor, forecast in plan["sensors"].items():
            rows = len(plan["time"])
            found["plan"] += [name] * rows
            found["time"] += plan["time"]
            found["sensor"] += [sensor] * rows
            found["unit"] += [content["sensors"][sensor]["unit"]] * rows
            found["mean"] += forecast["mean"]
            for level in LEVELS:
                found[f"q{level:g}"] += forecast["quantiles"][str(level)]
    return found


def grid(content: Mapping[str, Any], readings: Sequence[str], warnings: Sequence[str]) -> Grid:
    """One column per plan: how long, how much energy, how high the main sensors go; then what follows from it."""
    past, plans = content["history"], content["plans"]
    rows = [["duration", *(f"{plan['duration']:g} s" for plan in plans.values())]]
    energies = [plan["energy"] for plan in plans.values()]
    if all(energies):
        rows.append([f"energy in {energies[0]['unit']}", *(_interval(energy) for energy in energies)])
        if any(energy["truth"] is not None for energy in energies):
            rows.append(["  true", *("-" if e["truth"] is None else f"{e['truth']:.3g}" for e in energies)])
    if content["comparisons"]:
        differences = {row["second"]: row for row in content["comparisons"]}
        rows.append(["  to the first", *(_interval(differences.get(name), "+") for name in plans)])
    for sensor in main_sensors(content):
        peaks = [plan["peaks"][sensor] for plan in plans.values()]
        rows.append([f"peak {sensor} in {peaks[0]['unit']}", *(_interval(peak) for peak in peaks)])
        if peaks[0]["limit"] is not None:
            chances = (f"{peak['probability']:.0%}" for peak in peaks)
            rows.append([f"  P(above {peaks[0]['limit']:g})", *chances])
    title = (
        f"{past['machine']}, session {past['session']} from {past['at']:g} s on: "
        f"{content['settings']['samples']} sampled futures, 90 % intervals"
    )
    remarks = [f"{reading}." for reading in readings]
    if readings:
        remarks.append("Differences hold the chance of the futures, not what the model has not learned about commands.")
    remarks += [f"warning: {warning}" for warning in warnings]
    return Grid(title, ("", *plans), rows, remarks)


def _interval(estimate: Mapping[str, float] | None, sign: str = "") -> str:
    if estimate is None:
        return "-"
    mean, low, high = (f"{estimate[name]:{sign}.3g}" for name in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"
