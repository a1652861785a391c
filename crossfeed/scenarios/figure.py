"""What plans lead to, as tables and as one picture: fans of the chosen sensors, the commands below, the energies.

It reads the content of a forecast.json, so a stored forecast can be shown again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from crossfeed.scenarios.measures import Estimate, Peak
from crossfeed.scenarios.result import WhatIf
from crossfeed.show.figures import INK, XY, Band, Dot, Dots, Figure, Line, printed_unit
from crossfeed.show.tables import ResultTable, columns, filled

_MOST_SENSORS = 4
# Quantities in the order in which a figure needs them, and how many sensors of each.
_PREFERRED = {"power": 2, "torque": 1, "temperature": 1, "current": 1, "load": 1}
_CHANCE_ALONE = "Differences hold the chance of the futures, not what the model has not learned about commands."


def tables(answer: WhatIf) -> list[ResultTable]:
    """Plans side by side with duration, energy and difference, then the highest values of the main sensors."""
    readings = [f"{comparison.reading}." for comparison in answer.comparisons if comparison.reading]
    remarks = [*readings, *([_CHANCE_ALONE] if readings else [])]
    warnings = [f"warning: {warning}" for warning in answer.all_warnings]
    return [_plans(answer, tuple(remarks)), _peaks(answer, tuple(warnings))]


def _plans(answer: WhatIf, remarks: tuple[str, ...]) -> ResultTable:
    differences = {comparison.second: comparison for comparison in answer.comparisons}
    rows = []
    for name, plan in answer.plans.items():
        row: dict[str, Any] = {"plan": name, "duration": plan.duration}
        if plan.energy is not None:
            row |= {"energy": _bounds(plan.energy), "truth": plan.energy.truth}
        if name in differences:
            row |= {"difference": _bounds(differences[name]), "less": differences[name].probability_less}
        rows.append(row)
    energies = [plan.energy for plan in answer.plans.values() if plan.energy is not None]
    unit = energies[0].unit if energies else ""
    heads = columns(
        ("plan", "plan", "text"), ("duration", "duration", "seconds"),
        ("energy", f"energy in {unit} (90 % interval)", "interval", "Energy"), ("truth", "what happened"),
        ("difference", f"to the first in {unit}", "interval"), ("less", "chance that it needs less", "share"),
    )  # fmt: skip
    caption = answer.title
    if energies:
        caption += f"; energy is the integral of {', '.join(energies[0].sensors)}"
    return ResultTable("what-if-plans", caption, filled(heads, rows), tuple(rows), remarks=remarks)


def _peaks(answer: WhatIf, remarks: tuple[str, ...]) -> ResultTable:
    """The highest values under each plan: of every sensor where no power is measured."""
    powered = any(plan.energy is not None for plan in answer.plans.values())
    rows = []
    for sensor in main_sensors(answer) if powered else answer.sensors:
        for name, plan in answer.plans.items():
            peak = plan.peaks.get(sensor)
            if peak is not None:
                limited = {} if peak.limit is None else {"limit": peak.limit, "chance": peak.probability}
                rows.append({"sensor": sensor, "plan": name, "peak": _bounds(peak), "unit": peak.unit, **limited})
    heads = columns(
        ("sensor", "sensor", "text"), ("plan", "plan", "text"), ("peak", "peak (90 % interval)", "interval", "Peak"),
        ("unit", "unit", "text"), ("limit", "limit"), ("chance", "P(above the limit)", "share"),
    )  # fmt: skip
    caption = "Highest value of each sensor under each plan"
    return ResultTable("what-if-peaks", caption, filled(heads, rows), tuple(rows), remarks=remarks)


def _bounds(estimate: Estimate | Peak) -> dict[str, float]:
    return {"estimate": estimate.mean, "low": estimate.low, "high": estimate.high}


def figures(answer: WhatIf) -> dict[str, Figure]:
    """One figure for each sensor: power first, else the sensor on which the plans differ most beside their doubt."""
    power = [name for name, channel in answer.sensors.items() if channel.unit in ("kW", "W")]
    order = [*power[:1], *sorted(answer.sensors, key=lambda name: -_difference(answer, name))]
    return {name: what_if_figure(answer, [name]) for name in dict.fromkeys(order)}


def _difference(answer: WhatIf, name: str) -> float:
    """How far the means of the first two plans lie apart, in widths of the first one's 90 % interval."""
    shown = [plan.sensors[name] for plan in list(answer.plans.values())[:2]]
    if len(shown) < 2:
        return 0.0
    low, high = (shown[0].quantiles[level] for level in ("0.05", "0.95"))
    width = fmean(above - below for below, above in zip(low, high, strict=True)) or 1.0
    apart = [abs(mean - other) for mean, other in zip(shown[0].mean, shown[1].mean, strict=False)]
    return fmean(apart) / width if apart else 0.0


def what_if_figure(answer: WhatIf, channels: Sequence[str] = ()) -> Figure:
    """Fans of some sensors (by default the main ones), the commands, and the energies with their differences."""
    sensors = list(channels) or main_sensors(answer)
    panels: list[XY | Dots] = [_sensor(answer, sensor) for sensor in sensors]
    panels += [_command(answer, label, unit, names) for label, unit, names in _command_rows(answer)]
    panels += _energies(answer)
    plans = tuple((name, colour, "line") for name, colour in _colours(answer).items())
    legend = (*plans, ("90 %, darker 50 %", 0, "band"), ("measured", INK, "line"))
    if any(plan.truth for plan in answer.plans.values()):
        legend = (*legend, ("what really followed", INK, "dashed"))
    return Figure(f"what-if-{'-'.join(sensors)}", answer.title, tuple(panels), legend, first_is_main=len(sensors) == 1)


def main_sensors(answer: WhatIf) -> list[str]:
    """The sensors to show when none were named: those with a limit, then powers, a torque, a temperature."""
    peaks = next(iter(answer.plans.values())).peaks
    limited = [name for name, peak in peaks.items() if peak.limit is not None]
    preferred = []
    spindle_first = sorted(answer.sensors, key=lambda name: not name.startswith("spindle"))
    for quantity, count in _PREFERRED.items():
        preferred += [name for name in spindle_first if answer.sensors[name].quantity == quantity][:count]
    chosen = list(dict.fromkeys([*limited, *preferred])) or list(answer.sensors)
    return chosen[: max(_MOST_SENSORS, len(limited))]


def _sensor(answer: WhatIf, sensor: str) -> XY:
    past, rows = answer.history, _rows_shown(answer)
    lines, bands, shown = [Line("measured", past.time[rows], past.sensors[sensor][rows], INK)], [], []
    for (name, plan), colour in zip(answer.plans.items(), _colours(answer).values(), strict=True):
        # The fan opens at the last measured value, so that the eye finds the moment of the forecast.
        quantiles = {
            level: [past.sensors[sensor][-1], *values] for level, values in plan.sensors[sensor].quantiles.items()
        }
        time = [0.0, *plan.time]
        for low, high, label in (("0.05", "0.95", "90 %"), ("0.25", "0.75", "50 %")):
            if low in quantiles:
                bands.append(Band(f"{name}, {label}", time, quantiles[low], quantiles[high], colour, label == "90 %"))
        middle = quantiles.get("0.5", [past.sensors[sensor][-1], *plan.sensors[sensor].mean])
        lines.append(Line(name, time, middle, colour))
        shown += [*middle, np.quantile(_floats(quantiles["0.95"]), 0.9)]
        if plan.truth:
            lines.append(Line("what really followed", plan.time, plan.truth[sensor], INK, "dashed"))
            shown += plan.truth[sensor]
    peak = next(iter(answer.plans.values())).peaks.get(sensor)
    limit = None if peak is None else peak.limit
    # Nine tenths of the fan set the scale; a start-up peak may run off the panel.
    shown += [*past.sensors[sensor][rows], *([] if limit is None else [limit])]
    return XY(
        sensor.replace("_", " "), "seconds from now", f"in {printed_unit(answer.sensors[sensor].unit)}",
        tuple(lines), tuple(bands), level=None if limit is None else (limit, f"limit {limit:g}"), moment=0.0,
        highest=float(np.nanmax(_floats(shown))),
    )  # fmt: skip


def _command_rows(answer: WhatIf) -> list[tuple[str, str, list[str]]]:
    """One panel per command; the feeds of several axes share one, as the speed along the path."""
    rows: list[tuple[str, str, list[str]]] = []
    feeds = [name for name, command in answer.commands.items() if command.quantity == "feed"]
    for name, command in answer.commands.items():
        if name not in feeds or len(feeds) == 1:
            rows.append((name.replace("_", " "), command.unit, [name]))
        elif name == feeds[0]:
            rows.append(("path feed", command.unit, feeds))
    return rows


def _command(answer: WhatIf, label: str, unit: str, names: Sequence[str]) -> XY:
    past, rows = answer.history, _rows_shown(answer)
    lines = [Line("measured", past.time[rows], _joined(past.commands, names)[rows], INK, "step")]
    for (name, plan), colour in zip(answer.plans.items(), _colours(answer).values(), strict=True):
        values = _joined(plan.commands, names)
        lines.append(Line(name, [0.0, *plan.time], [*values[:1], *values], colour, "step"))
    return XY(label, "seconds from now", f"in {unit}", tuple(lines), moment=0.0, low=True)


def _energies(answer: WhatIf) -> list[Dots]:
    """The energy of each plan, and with several the paired differences; nothing where there is no power."""
    energies = {name: plan.energy for name, plan in answer.plans.items() if plan.energy}
    if not energies:
        return []
    unit = next(iter(energies.values())).unit
    energy = Dots.single_series(f"Energy in {unit}, 90 %", unit, "energy", _dots(energies))
    if any(plan_energy.truth is not None for plan_energy in energies.values()):
        truth = tuple(Dot(plan_energy.truth) for plan_energy in energies.values())
        energy = replace(energy, series=(*energy.series, ("what really followed", INK, truth)))
    differences = {comparison.second: comparison for comparison in answer.comparisons}
    title = f"Difference to the first in {unit}"
    if not differences:
        return [energy]
    return [energy, Dots.single_series(title, unit, "difference", _dots(differences), reference=0.0)]


def _dots(estimates: Mapping[str, Estimate]) -> dict[str, Dot]:
    return {name: Dot(estimate.mean, estimate.low, estimate.high) for name, estimate in estimates.items()}


def _rows_shown(answer: WhatIf) -> slice:
    """The rows of the past that a panel shows, less than half of what is to come; others must not set its scale."""
    longest = max(plan.duration for plan in answer.plans.values())
    back = min(-answer.history.time[0], 0.4 * longest + answer.history.period)
    return slice(int(np.searchsorted(answer.history.time, -back - 1e-6)), None)


def _colours(answer: WhatIf) -> dict[str, int]:
    return {name: at % INK for at, name in enumerate(answer.plans)}


def _joined(commands: Mapping[str, Any], names: Sequence[str]) -> list[float]:
    """One command, or the length of the vector of several."""
    values = _floats([commands[name] for name in names])
    return list(values[0] if len(names) == 1 else np.sqrt(np.sum(np.square(values), axis=0)))


def _floats(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)
