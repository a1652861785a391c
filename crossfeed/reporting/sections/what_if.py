"""What-if forecasts: several plans for the same machine from the same moment, with energy and peaks."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Block, Figure, FigureChoice, Note, ReportTable, Section, columns
from crossfeed.reporting.panels import INK, XY, Band, Line


def sections(found: Artefacts) -> list[Section]:
    """One part for each recorded forecast."""
    blocks: list[Block] = []
    for number, content in enumerate(found.forecasts, start=1):
        plans = content.get("plans") or {}
        if plans:
            blocks += _forecast(content, plans, "" if number == 1 else f"-{number}")
    if not blocks:
        return []
    lead = (
        "The same machine from the same moment under different plans. Where the bands of two plans do not overlap, the "
        "plan makes a difference the model is sure of; far ahead the bands must widen."
    )
    return [Section("what-if", "What if", lead, tuple(blocks))]


def _forecast(content: Mapping[str, Any], plans: Mapping[str, Any], suffix: str) -> list[Block]:
    blocks: list[Block] = [Note(str(warning), "fair") for warning in content.get("warnings") or []]
    for name, plan in plans.items():
        blocks += [Note(f"{name}: {warning}", "fair") for warning in plan.get("warnings") or []]
    sensors = [name for name in content.get("sensors", {}) if any(name in plan["sensors"] for plan in plans.values())]
    if sensors:
        options = {name: _figure(content, plans, name, suffix) for name in sensors}
        blocks.append(FigureChoice(f"what-if-channel{suffix}", "Channel", options, _first(content, plans, sensors)))
    energies = {name: plan["energy"] for name, plan in plans.items() if plan.get("energy")}
    if energies:
        blocks.append(_energy(content, plans, energies, suffix))
    elif any(plan.get("peaks") for plan in plans.values()):
        blocks += [
            Note("No power is measured on this machine, so no plan has an energy; peaks stand in for it."),
            _peaks(plans, suffix),
        ]
    if content.get("comparisons"):
        blocks.append(_differences(content["comparisons"], suffix))
    return blocks


def _first(content: Mapping[str, Any], plans: Mapping[str, Any], sensors: Sequence[str]) -> str:
    """The sensor people look at first: a power, else the one on which the plans differ most beside their doubt."""
    units = {name: content["sensors"][name]["unit"] for name in sensors}
    power = next((name for name in sensors if units[name] in ("kW", "W")), None)
    return power or max(sensors, key=lambda name: _difference(plans, name))


def _difference(plans: Mapping[str, Any], name: str) -> float:
    """How far the means of the first two plans lie apart, in widths of the first one's 90 % interval."""
    shown = [plan["sensors"][name] for plan in plans.values() if name in plan["sensors"]][:2]
    if len(shown) < 2:
        return 0.0
    low, high = (shown[0].get("quantiles", {}).get(level) or [0.0] for level in ("0.05", "0.95"))
    width = fmean(above - below for below, above in zip(low, high, strict=True)) or 1.0
    apart = [abs(one - other) for one, other in zip(shown[0]["mean"], shown[1]["mean"], strict=False)]
    return fmean(apart) / width if apart else 0.0


def _figure(content: Mapping[str, Any], plans: Mapping[str, Any], name: str, suffix: str) -> Figure:
    unit, history = content["sensors"][name]["unit"], content["history"]
    lines, bands = [], []
    if name in history.get("sensors", {}):
        lines.append(Line("history", history["time"], history["sensors"][name], INK))
    for number, (title, plan) in enumerate(plans.items()):
        sensor = plan["sensors"].get(name)
        if sensor is None:
            continue
        quantiles = sensor.get("quantiles") or {}
        if quantiles.get("0.05") and quantiles.get("0.95"):
            bands.append(Band(f"{title}, 90 %", plan["time"], quantiles["0.05"], quantiles["0.95"], number % 6, True))
        lines.append(Line(title, plan["time"], sensor["mean"], number % 6))
        if plan.get("truth") and plan["truth"].get(name):
            lines.append(Line(f"{title}: what happened", plan["time"], plan["truth"][name], INK))
    panels = [XY(name, "seconds from now", f"{name} [{unit}]", tuple(lines), tuple(bands), moment=0.0)]
    for command, facts in content.get("commands", {}).items():
        own = (
            [Line("history", history["time"], history["commands"][command], INK, "step")]
            if command in history.get("commands", {})
            else []
        )
        own += [
            Line(title, plan["time"], plan["commands"][command], number % 6, "step")
            for number, (title, plan) in enumerate(plans.items())
            if command in plan.get("commands", {})
        ]
        panels.append(XY(command, "seconds from now", facts["unit"], tuple(own), moment=0.0, low=True))
    legend = (*((title, number % 6, "line") for number, title in enumerate(plans)), ("history", INK, "line"))
    caption = f"{name} under each plan (mean and 90 % interval), and the commands of the plans."
    return Figure(f"what-if-{name}{suffix}", caption, tuple(panels), legend, first_is_main=len(panels) > 2)


def _energy(
    content: Mapping[str, Any], plans: Mapping[str, Any], energies: Mapping[str, Any], suffix: str
) -> ReportTable:
    rows = []
    for name, energy in energies.items():
        row: dict[str, Any] = {
            "plan": name, "duration": plans[name].get("duration"),
            "energy": {"estimate": energy["mean"], "low": energy["low"], "high": energy["high"]},
            "unit": energy["unit"], "truth": energy.get("truth"),
        }  # fmt: skip
        for sensor, peak in (plans[name].get("peaks") or {}).items():
            if peak.get("limit") is not None:
                row["limit"] = f"{sensor} above {peak['limit']:g} {peak['unit']}"
                row["probability"] = peak["probability"]
        rows.append(row)
    level = next(iter(energies.values())).get("level", 0.9)
    heads = columns(
        ("plan", "plan", "text"), ("duration", "duration", "seconds"),
        ("energy", f"energy ({level:.0%} interval)", "interval", "Energy"), ("unit", "unit", "text"),
        ("truth", "what happened"), ("limit", "limit", "text"), ("probability", "chance to pass it", "share"),
    )  # fmt: skip
    shown = tuple(column for column in heads if any(row.get(column.key) is not None for row in rows))
    summed = ", ".join(next(iter(energies.values())).get("sensors", []))
    machine = content.get("history", {}).get("machine", "the machine")
    return ReportTable(
        f"what-if-energy{suffix}", f"Energy of each plan on {machine}, the integral of {summed}.", shown, tuple(rows)
    )


def _peaks(plans: Mapping[str, Any], suffix: str) -> ReportTable:
    """The highest value of every sensor under each plan: what remains to compare where no power is measured."""
    rows = []
    for sensor in dict.fromkeys(sensor for plan in plans.values() for sensor in plan.get("peaks") or {}):
        for name, plan in plans.items():
            peak = (plan.get("peaks") or {}).get(sensor)
            if peak is not None:
                bounds = {"estimate": peak["mean"], "low": peak["low"], "high": peak["high"]}
                rows.append({"sensor": sensor, "plan": name, "peak": bounds, "unit": peak["unit"]})
    heads = columns(
        ("sensor", "sensor", "text"), ("plan", "plan", "text"), ("peak", "peak (90 % interval)", "interval", "Peak"),
        ("unit", "unit", "text"),
    )  # fmt: skip
    return ReportTable(f"what-if-peaks{suffix}", "Highest value of each sensor under each plan.", heads, tuple(rows))


def _differences(comparisons: Any, suffix: str) -> ReportTable:
    rows = tuple(
        {
            "second": one["second"], "first": one["first"],
            "difference": {"estimate": one["mean"], "low": one["low"], "high": one["high"]}, "unit": one["unit"],
            "less": one["probability_less"],
        }
        for one in comparisons
    )  # fmt: skip
    heads = columns(
        ("second", "plan", "text"), ("first", "against", "text"), ("difference", "difference", "interval"),
        ("unit", "unit", "text"), ("less", "chance that it needs less", "share"),
    )  # fmt: skip
    return ReportTable(f"what-if-comparison{suffix}", "Energy of a plan minus that of the first one.", heads, rows)
