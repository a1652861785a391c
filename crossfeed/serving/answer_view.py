"""What plans lead to, as a table to read."""

from collections.abc import Sequence

from crossfeed.grid import Grid, significant
from crossfeed.serving.figure import main_sensors
from crossfeed.serving.measures import Peak
from crossfeed.serving.result import PlanComparison, PlanEnergy, WhatIfResult


def grid(answer: WhatIfResult, readings: Sequence[str], warnings: Sequence[str]) -> Grid:
    """One column per plan: how long, how much energy, how high the main sensors go; then what follows from it."""
    plans = answer.plans
    rows = [["duration", *(f"{plan.duration:g} s" for plan in plans.values())]]
    energies = [plan.energy for plan in plans.values() if plan.energy is not None]
    if len(energies) == len(plans):
        rows.append([f"energy in {energies[0].unit}", *(_interval(energy) for energy in energies)])
        if any(energy.truth is not None for energy in energies):
            rows.append(
                ["  true", *("-" if energy.truth is None else significant(energy.truth) for energy in energies)]
            )
    if answer.comparisons:
        differences = {comparison.second: comparison for comparison in answer.comparisons}
        rows.append(["  to the first", *(_interval(differences.get(name), "+") for name in plans)])
    for sensor in main_sensors(answer):
        peaks = [plan.peaks[sensor] for plan in plans.values()]
        rows.append([f"peak {sensor} in {peaks[0].unit}", *(_interval(peak) for peak in peaks)])
        if peaks[0].limit is not None:
            rows.append([f"  P(above {peaks[0].limit:g})", *(f"{peak.probability:.0%}" for peak in peaks)])
    title = f"{answer.title}, 90 % intervals"
    remarks = [f"{reading}." for reading in readings]
    if readings:
        remarks.append("Differences hold the chance of the futures, not what the model has not learned about commands.")
    remarks += [f"warning: {warning}" for warning in warnings]
    return Grid(title, ("", *plans), rows, remarks)


def _interval(found: PlanEnergy | PlanComparison | Peak | None, sign: str = "") -> str:
    if found is None:
        return "-"
    mean, low, high = (significant(value, sign) for value in (found.mean, found.low, found.high))
    return f"{mean} ({low} to {high})"
