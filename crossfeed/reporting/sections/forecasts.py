"""Fan charts: forecasts against what happened, with the commands below them."""

from collections.abc import Mapping, Sequence
from typing import Any

from crossfeed.reporting.artefacts import Artefacts
from crossfeed.reporting.blocks import Figure, FigureChoice, Section
from crossfeed.reporting.panels import INK, XY, Band, Line

LEGEND = (("observed", INK, "line"), ("forecast", 0, "line"), ("50 % and 90 % interval", 0, "band"))


def sections(found: Artefacts) -> list[Section]:
    """Examples of the target, else of the source."""
    sides = (("target", found.on_target()), ("source", found.on_source()))
    shown = ((where, known) for where, known in sides if known and known.evaluation.examples.get(known.name))
    where, known = next(shown, ("", None))
    if known is None:
        return []
    examples = known.evaluation.examples[known.name]
    names = list(dict.fromkeys(name for example in examples for name in example["channels"]))
    options = {name: _figure(name, examples, known.evaluation.period, where) for name in names}
    lead = (
        f"What the model said and what happened on the {where}: the observed line should stay inside the pale band "
        "nine times out of ten. The windows were chosen by their planned commands alone, one for each regime, never by "
        "their error."
    )
    choice = FigureChoice("forecast-channel", "Channel", options, _first(examples, names))
    return [Section("forecasts", "Forecasts against truth", lead, (choice,))]


def _first(examples: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """The channel people look at first: a power, if there is one."""
    units = {name: channel["unit"] for example in examples for name, channel in example["channels"].items()}
    return next((name for name in names if units[name] in ("kW", "W")), names[0])


def _figure(name: str, examples: Sequence[Mapping[str, Any]], period: float, where: str) -> Figure:
    shown = [example for example in examples if name in example["channels"]]
    ordered = tuple(panel for example in shown for panel in (_fan(example, name, period), _commands(example, period)))
    commands = list(dict.fromkeys(command for example in shown for command in example["commands"]))
    legend = (*LEGEND, *((command, 1 + number % 5, "line") for number, command in enumerate(commands)))
    caption = (
        f"{name} on the {where}: observed before and after the moment of the forecast, the mean of the forecast with "
        "its 50 % and 90 % intervals, and below it the commands, each as a share of its largest value."
    )
    return Figure(f"forecast-{name}", caption, ordered, legend, stacked=2)


def _fan(example: Mapping[str, Any], name: str, period: float) -> XY:
    channel, steps = example["channels"][name], example["steps"]
    past, ahead, asked = ([step * period for step in steps[key]] for key in ("history", "truth", "forecast"))
    bands = []
    for low, high, faint in (("0.05", "0.95", True), ("0.25", "0.75", False)):
        if low in channel["quantiles"]:
            label = f"{100 * (float(high) - float(low)):.0f} % interval"
            bands.append(Band(label, asked, channel["quantiles"][low], channel["quantiles"][high], 0, faint))
    lines = (
        Line("observed", [*past, *ahead], [*channel["history"], *channel["truth"]], INK),
        Line("forecast", asked, channel["mean"], 0, "marked"),
    )
    title = f"{example['regime']} · {example['run']}"
    return XY(title, "seconds from now", f"{name} [{channel['unit']}]", lines, tuple(bands), moment=0.0)


def _commands(example: Mapping[str, Any], period: float) -> XY:
    """All commands in one low panel, each as a share of its own largest value: what counts is when they change."""
    steps = [step * period for step in (*example["steps"]["history"], *example["steps"]["truth"])]
    lines = []
    for number, (name, command) in enumerate(example["commands"].items()):
        values = [*command["before"], *command["after"]]
        largest = max((abs(value) for value in values if value is not None), default=0.0) or 1.0
        label = f"{name} (of {largest:,.0f} {command['unit']})"
        shares = [None if value is None else value / largest for value in values]
        lines.append(Line(label, steps, shares, 1 + number % 5, "step"))
    return XY("commands", "seconds from now", "share of max.", tuple(lines), moment=0.0, low=True)
