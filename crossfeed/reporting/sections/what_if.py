"""What-if forecasts: several plans for the same machine from the same moment, with energy and peaks."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, FigureChoice, Note, ReportTable, Section, columns, filled, section
from crossfeed.reporting.panels import INK, XY, Band, Line
from crossfeed.serving.measures import Peak
from crossfeed.serving.result import PlanComparison, PlanEnergy, PlanForecast, WhatIfResult


def sections(found: Artefacts) -> list[Section]:
    """One part for each recorded forecast."""
    blocks: list[Block] = []
    for number, answer in enumerate(found.forecasts, start=1):
        blocks += _forecast(answer, "" if number == 1 else f"-{number}")
    lead = (
        "The same machine from the same moment under different plans. Where the bands of two plans do not overlap, the "
        "plan makes a difference the model is sure of; far ahead the bands must widen."
    )
    return section("what-if", "What if", lead, blocks)


def _forecast(answer: WhatIfResult, suffix: str) -> list[Block]:
    blocks: list[Block] = [Note(warning, "fair") for warning in answer.all_warnings]
    if answer.sensors:
        options = {name: _figure(answer, name, suffix) for name in answer.sensors}
        blocks.append(FigureChoice(f"what-if-channel{suffix}", "Channel", options, _first(answer)))
    energies = {name: plan.energy for name, plan in answer.plans.items() if plan.energy is not None}
    if energies:
        blocks.append(_energy(answer, energies, suffix))
    else:
        blocks += [
            Note("No power is measured on this machine, so no plan has an energy; peaks stand in for it."),
            _peaks(answer.plans, suffix),
        ]
    if answer.comparisons:
        blocks.append(_differences(answer.comparisons, suffix))
    return blocks


def _first(answer: WhatIfResult) -> str:
    """The sensor people look at first: a power, else the one on which the plans differ most beside their doubt."""
    power = next((name for name, channel in answer.sensors.items() if channel.unit in ("kW", "W")), None)
    return power or max(answer.sensors, key=lambda name: _difference(list(answer.plans.values()), name))


def _difference(plans: Sequence[PlanForecast], name: str) -> float:
    """How far the means of the first two plans lie apart, in widths of the first one's 90 % interval."""
    shown = [plan.sensors[name] for plan in plans[:2]]
    if len(shown) < 2:
        return 0.0
    low, high = (shown[0].quantiles[level] for level in ("0.05", "0.95"))
    width = fmean(above - below for below, above in zip(low, high, strict=True)) or 1.0
    apart = [abs(one - other) for one, other in zip(shown[0].mean, shown[1].mean, strict=False)]
    return fmean(apart) / width if apart else 0.0


def _figure(answer: WhatIfResult, name: str, suffix: str) -> Figure:
    past, unit = answer.history, answer.sensors[name].unit
    lines, bands = [Line("history", past.time, past.sensors[name], INK)], []
    for number, (title, plan) in enumerate(answer.plans.items()):
        sensor = plan.sensors[name]
        low, high = sensor.quantiles["0.05"], sensor.quantiles["0.95"]
        bands.append(Band(f"{title}, 90 %", plan.time, low, high, number % 6, True))
        lines.append(Line(title, plan.time, sensor.mean, number % 6))
        if plan.truth:
            lines.append(Line(f"{title}: what happened", plan.time, plan.truth[name], INK))
    panels = [XY(name, "seconds from now", f"{name} [{unit}]", tuple(lines), tuple(bands), moment=0.0)]
    for command, channel in answer.commands.items():
        own = [Line("history", past.time, past.commands[command], INK, "step")]
        own += [
            Line(title, plan.time, plan.commands[command], number % 6, "step")
            for number, (title, plan) in enumerate(answer.plans.items())
        ]
        panels.append(XY(command, "seconds from now", channel.unit, tuple(own), moment=0.0, low=True))
    legend = (*((title, number % 6, "line") for number, title in enumerate(answer.plans)), ("history", INK, "line"))
    caption = f"{name} under each plan (mean and 90 % interval), and the commands of the plans."
    return Figure(f"what-if-{name}{suffix}", caption, tuple(panels), legend, first_is_main=len(panels) > 2)


def _energy(answer: WhatIfResult, energies: Mapping[str, PlanEnergy], suffix: str) -> ReportTable:
    rows = []
    for name, energy in energies.items():
        plan = answer.plans[name]
        row: dict[str, Any] = {
            "plan": name, "duration": plan.duration, "energy": _bounds(energy), "unit": energy.unit,
            "truth": energy.truth,
        }  # fmt: skip
        for sensor, peak in plan.peaks.items():
            if peak.limit is not None:
                row["limit"] = f"{sensor} above {peak.limit:g} {peak.unit}"
                row["probability"] = peak.probability
        rows.append(row)
    first = next(iter(energies.values()))
    heads = columns(
        ("plan", "plan", "text"), ("duration", "duration", "seconds"),
        ("energy", f"energy ({first.level:.0%} interval)", "interval", "Energy"), ("unit", "unit", "text"),
        ("truth", "what happened"), ("limit", "limit", "text"), ("probability", "chance to pass it", "share"),
    )  # fmt: skip
    caption = f"Energy of each plan on {answer.history.machine}, the integral of {', '.join(first.sensors)}."
    return ReportTable(f"what-if-energy{suffix}", caption, filled(heads, rows), tuple(rows))


def _peaks(plans: Mapping[str, PlanForecast], suffix: str) -> ReportTable:
    """The highest value of every sensor under each plan: what remains to compare where no power is measured."""
    sensors = dict.fromkeys(sensor for plan in plans.values() for sensor in plan.peaks)
    rows = tuple(
        {"sensor": sensor, "plan": name, "peak": _bounds(plan.peaks[sensor]), "unit": plan.peaks[sensor].unit}
        for sensor in sensors
        for name, plan in plans.items()
    )
    heads = columns(
        ("sensor", "sensor", "text"), ("plan", "plan", "text"), ("peak", "peak (90 % interval)", "interval", "Peak"),
        ("unit", "unit", "text"),
    )  # fmt: skip
    return ReportTable(f"what-if-peaks{suffix}", "Highest value of each sensor under each plan.", heads, rows)


def _differences(comparisons: Sequence[PlanComparison], suffix: str) -> ReportTable:
    rows = tuple(
        {
            "second": one.second, "first": one.first, "difference": _bounds(one), "unit": one.unit,
            "less": one.probability_less,
        }
        for one in comparisons
    )  # fmt: skip
    heads = columns(
        ("second", "plan", "text"), ("first", "against", "text"), ("difference", "difference", "interval"),
        ("unit", "unit", "text"), ("less", "chance that it needs less", "share"),
    )  # fmt: skip
    return ReportTable(f"what-if-comparison{suffix}", "Energy of a plan minus that of the first one.", heads, rows)


def _bounds(found: PlanEnergy | PlanComparison | Peak) -> dict[str, float]:
    return {"estimate": found.mean, "low": found.low, "high": found.high}
