"""An evaluation to read and to look at: the verdict on every channel first, the numbers behind it after."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from crossfeed.evaluation.statistics import Interval
from crossfeed.evaluation.verdict import Calibration, CommandUse, words
from crossfeed.files import plain
from crossfeed.show.figures import INK, XY, Band, Bars, Dot, Dots, Figure, Line
from crossfeed.show.tables import Column, ResultTable, columns, interval, number, plural, share
from crossfeed.training.config import WEAK_COMMAND_USE

if TYPE_CHECKING:
    from crossfeed.evaluation.result import Evaluation

TRUST = {"good": "yes", "fair": "with care", "bad": "no", "unknown": "cannot be said"}
HEADLINE = columns(
    ("forecaster", "forecaster", "text"), ("rmse", "RMSE", "interval"),
    ("mae", "MAE", "interval"), ("skill_rmse", "skill (RMSE)", "interval", "Skill"),
    ("skill_mae", "skill (MAE)"), ("crps", "CRPS"), ("nll", "NLL"), ("r2", "R²", "number", "$R^2$"),
    ("coverage90", "in 90 %", "share"),
)  # fmt: skip
LOWEST = ("rmse", "mae", "crps", "nll")
_REGIMES = {"idle": 0, "steady": 1, "start-up": 2, "stop": 3}
_SEVERITY = {"light": 2, "medium": 4, "heavy": 1}  # how hard a corruption is, and its colour
_FORECASTS = (("observed", INK, "line"), ("forecast", 0, "line"), ("50 % and 90 % interval", 0, "band"))


def tables(found: "Evaluation", model: str) -> list[ResultTable]:
    """Everything that was measured of one model: the headline, where the errors lie, and each probe that ran."""
    shown = [headline(found), by_horizon(found, model), by_regime_and_run(found, model), by_channel(found, model)]
    if model in found.calibration:
        shown.append(_calibration(found.calibration[model]))
    if found.conformal and model in found.conformal:
        shown.append(_conformal(found.conformal[model]))
    if model in found.command_use:
        shown.append(_command_use(found.command_use[model], found.unit))
    if found.counterfactual is not None:
        shown.append(_counterfactual(found.counterfactual))
    if found.robustness and model in found.robustness:
        shown.append(_robustness(found.robustness[model]))
    return shown


def figures(found: "Evaluation", model: str) -> list[Figure]:
    """The pictures of the same; those of forecasts beside what happened are in `fan_charts`."""
    shown = [summary(found, model), *_channel_figures(found, model)]
    if model in found.calibration:
        shown += _calibration_figures(found.calibration[model])
    if model in found.command_use:
        shown.append(_command_figure(found.command_use[model]))
    if found.counterfactual is not None:
        shown.append(_counterfactual_figure(found.counterfactual))
    if found.robustness and model in found.robustness:
        shown.append(_robustness_figure(found, model))
    return shown


def verdict_table(found: "Evaluation", model: str) -> ResultTable:
    """The answer, and each channel with its reasons."""
    verdict, where = found.verdict(model), f" on {words(found.machines)}" if found.table is not None else ""
    rows = tuple(
        {"channel": one.channel, "trust": TRUST[one.light], "why": "; ".join(one.reasons),
         "skill": plain(one.skill), "coverage": plain(one.coverage)} for one in verdict.channels
    )  # fmt: skip
    heads = columns(
        ("channel", "channel", "text"), ("trust", "trust it?", "text"), ("why", "why", "text"),
        ("skill", "skill", "interval"), ("coverage", "inside 90 %", "share"),
    )  # fmt: skip
    return ResultTable("verdict", f"May {model} be trusted{where}? {verdict.answer}", heads, rows)


def sentences(found: "Evaluation", model: str) -> list[str]:
    """The headline beside what costs nothing, and whether the planned commands count, in a sentence each."""
    scores, floor, units = found.scores[model], found.scores.get("persistence"), f"{len(found.runs)} {found.unit}s"
    skill, use = found.intervals[model].get("skill_rmse"), found.command_use.get(model)
    headline = f"On {found.windows:,} windows of {units} its RMSE is {number(scores['rmse'])}"
    if floor:
        headline += f" (repeating the last value: {number(floor['rmse'])})"
    headline += f"; skill {interval(plain(skill))}." if skill else "."
    if scores.get("coverage90") is not None:
        headline += f" Its 90 % intervals hold {share(scores['coverage90'])} of what happened."
    ratio = use.plans["shuffled"].rmse_ratio if use and "shuffled" in use.plans else None
    if ratio is None or ratio.estimate is None:
        return [headline]
    listens = (ratio.low if ratio.low is not None else ratio.estimate) >= WEAK_COMMAND_USE
    result = "it listens to the planned commands"
    if not listens:
        result = "it hardly listens to the planned commands, so do not compare plans with it yet"
    times = interval(plain(ratio))
    return [headline, f"With the plan of another moment its error is {times} times as large: {result}."]


def size(found: "Evaluation") -> str:
    """How much was judged."""
    return f"{plural(found.windows, 'window')} of {plural(len(found.runs), found.unit)}"


def headline(found: "Evaluation") -> ResultTable:
    """Models and floors on the same windows."""
    rows = []
    for forecaster, scores in sorted(found.scores.items(), key=lambda one: one[0] not in found.models):
        bounds = plain(found.intervals.get(forecaster, {}))
        row = {key: scores.get(key) for key in ("skill_mae", "crps", "nll", "r2", "coverage90")}
        row |= {key: bounds.get(key) or scores.get(key) for key in ("rmse", "mae", "skill_rmse")}
        rows.append({"forecaster": forecaster, **row})
    part = "" if found.part == "all" else f", {found.part} side"
    space = f"errors in standard deviations of the source (z); bounds: 95 % over {found.unit}s"
    caption = f"{', '.join(found.machines)}{part}: {size(found)}, {space}"
    return ResultTable("headline", caption, HEADLINE, tuple(rows), lowest=LOWEST)


_PARTS = columns(
    ("rmse", "RMSE"), ("mae", "MAE"), ("skill_rmse", "skill"), ("crps", "CRPS"), ("nll", "NLL"),
    ("coverage90", "in 90 %", "share"), ("width90", "90 % width"), ("count", "values", "count"),
)  # fmt: skip


def by_horizon(found: "Evaluation", model: str) -> ResultTable:
    """The errors at every horizon."""
    rows = tuple({"horizon": label, **row} for label, row in found.by_horizon[model].items())
    caption = f"By horizon, in rows of {found.period:g} s ahead"
    return ResultTable("by-horizon", caption, (Column("horizon", "rows ahead", "text"), *_PARTS), rows)


def by_regime_and_run(found: "Evaluation", model: str) -> ResultTable:
    """The errors by regime and by run."""
    rows = tuple(
        {"divided_by": what, "label": label, **row}
        for what, labelled in (("regime", found.by_regime[model]), ("run", found.by_run[model]))
        for label, row in labelled.items()
    )
    heads = (Column("divided_by", "by", "text"), Column("label", "which", "text"), *_PARTS)
    caption = "By regime (read off the planned commands beforehand) and by run"
    return ResultTable("by-regime-and-run", caption, heads, rows, folded=len(rows) > 12)


def by_channel(found: "Evaluation", model: str) -> ResultTable:
    """The errors of every channel in its own unit."""
    rows = tuple(
        {
            "channel": channel, "unit": row.unit,
            **{name: row.physical[name] for name in ("rmse", "mae", "bias", "width90")}, "rmse_z": row.metrics["rmse"],
            "skill_rmse": plain(row.intervals.get("skill_rmse")) or row.metrics["skill_rmse"],
            "r2": "constant" if row.constant else row.metrics["r2"], "coverage90": row.metrics["coverage90"],
        }
        for channel, row in found.by_channel[model].items()
    )  # fmt: skip
    heads = columns(
        ("channel", "channel", "text"), ("unit", "unit", "text"), ("rmse", "RMSE [unit]"), ("mae", "MAE [unit]"),
        ("bias", "bias [unit]"), ("width90", "90 % width [unit]"), ("rmse_z", "RMSE [z]"),
        ("skill_rmse", "skill (95 % over runs)", "interval", "Skill"), ("r2", "R²", "number", "$R^2$"),
        ("coverage90", "in 90 %", "share"),
    )  # fmt: skip
    return ResultTable("by-channel", "By channel, in physical units", heads, rows)


def horizon_panel(found: "Evaluation", model: str, title: str) -> XY:
    """The error of the model and its floors by horizon; a floor far above leaves the picture."""
    order = (model, *(name for name in found.by_horizon if name != model))
    lines = []
    for colour, forecaster in enumerate(order):
        rows = found.by_horizon[forecaster]
        steps, errors = [int(label) * found.period for label in rows], [row["rmse"] for row in rows.values()]
        lines.append(Line("model" if forecaster == model else forecaster, steps, errors, colour, "marked"))
    worst = max(row["rmse"] or 0.0 for row in found.by_horizon[model].values())
    kept = [line for line in lines if line.name == "model" or max(y or 0.0 for y in line.y) < 6 * worst]
    return XY(title, "seconds ahead", "RMSE (z-units)", tuple(kept), from_zero=True)


def legend_of(panels: Sequence[XY]) -> tuple[tuple[str, int, str], ...]:
    """A key for every line that is shown."""
    return tuple(dict.fromkeys((line.name, line.colour, "line") for panel in panels for line in panel.lines))


def _channel_panels(found: "Evaluation", model: str) -> tuple[Dots, Dots]:
    channels = found.by_channel[model]
    rows = {f"{name} [{row.unit}]": row for name, row in channels.items() if row.metrics.get("skill_rmse") is not None}

    def dots(key: str) -> dict[str, Dot]:
        return {name: Dot.of(row.intervals.get(key) or Interval(row.metrics.get(key))) for name, row in rows.items()}

    skill = Dots.single_series(
        "Skill against the last value", "1 − RMSE / RMSE of persistence", "skill", dots("skill_rmse"),
        reference=0.0, limits=(-1.0, 1.0),
    )  # fmt: skip
    coverage = Dots.single_series(
        "Share inside the 90 % interval", "share (0.9 is right)", "coverage", dots("coverage90"), 1,
        reference=0.9, limits=(0.0, 1.02),
    )  # fmt: skip
    return skill, coverage


def _channel_figures(found: "Evaluation", model: str) -> list[Figure]:
    caption = (
        "Each channel with its 95 % interval over runs: right of the dotted line is better than the last value; "
        "coverage should sit on its line."
    )
    return [Figure("by-channel", caption, _channel_panels(found, model))]


def summary(found: "Evaluation", model: str) -> Figure:
    """Skill and coverage of every channel, and the error by horizon beside the floors."""
    horizons = horizon_panel(found, model, "RMSE by horizon")
    panels = (*_channel_panels(found, model), horizons)
    return Figure("summary", found.verdict(model).answer, panels, legend_of([horizons]))


def _pit(measured: Calibration, title: str, colour: int) -> XY:
    bins = len(measured.pit)
    edges = [position / bins for position in range(bins + 1)]
    heights = [None if value is None else value * bins for value in measured.pit]
    x_label, y_label = "predicted probability of a smaller value", "density (1 is right)"
    return XY(title, x_label, y_label, bars=(Bars("PIT", edges, heights, colour),), level=(1.0, "flat"))


def _reliability(title: str, parts: Mapping[str, tuple[Calibration, int]]) -> XY:
    levels = [float(level) for level in next(iter(parts.values()))[0].coverage]
    lines = [
        Line(name, levels, list(measured.coverage.values()), colour, "marked")
        for name, (measured, colour) in parts.items()
    ]
    return XY(title, "nominal", "observed", (Line("nominal", levels, levels, INK, "dashed"), *lines))


def _calibration_figures(measured: Calibration) -> list[Figure]:
    caption = (
        "Where the observations fell in the predicted distributions (PIT), and how many lie inside the central "
        "intervals."
    )
    panels = (_pit(measured, "PIT histogram", 0), _reliability("Coverage, all regimes", {"model": (measured, 0)}))
    nominal = ("nominal", INK, "dashed")
    shown = [Figure("calibration", caption, panels, (("model", 0, "line"), nominal))]
    if measured.by_regime:
        parts = {regime: (part, _REGIMES.get(regime, 4)) for regime, part in measured.by_regime.items()}
        pits = (_pit(part, f"PIT: {regime}", colour) for regime, (part, colour) in parts.items())
        legend = (*((regime, colour, "line") for regime, (_, colour) in parts.items()), nominal)
        caption = "The same by regime: intervals that are right on average may be wrong in every start-up."
        regimes = (_reliability("Reliability by regime", parts), *pits)
        shown.append(Figure("calibration-by-regime", caption, regimes, legend))
    return shown


def _calibration(measured: Calibration) -> ResultTable:
    rows = tuple(
        {
            "regime": regime, **{f"coverage_{level}": value for level, value in part.coverage.items()},
            "width_0.9": part.width90, "pit_deviation": part.pit_deviation, "reading": part.reading,
        }
        for regime, part in {"all": measured, **measured.by_regime}.items()
    )  # fmt: skip
    levels = tuple((f"coverage_{level}", f"in {100 * float(level):.0f} %", "share") for level in measured.coverage)
    heads = columns(
        ("regime", "regime", "text"), *levels, ("width_0.9", "width of 90 % [z]"), ("pit_deviation", "PIT deviation"),
        ("reading", "reading", "text"),
    )  # fmt: skip
    caption = (
        "Calibration: observed coverage of the central intervals. PIT deviation: mean distance of the histogram from "
        "flat."
    )
    return ResultTable("calibration", caption, heads, rows)


def _conformal(content: Mapping[str, Any]) -> ResultTable:
    names = {
        "as_is": "as it is, on the later runs",
        "split": "calibrated on the first two runs",
        "adaptive": "tracked while running",
    }
    levels = list(content["adaptive"])
    rows = tuple(
        {"layer": title, **{level: content[key].get(level) for level in levels}}
        for key, title in names.items()
        if isinstance(content.get(key), Mapping)
    )
    heads = columns(
        ("layer", "intervals", "text"), *((level, f"{100 * float(level):.0f} %", "share") for level in levels)
    )
    caption = "Coverage with a conformal layer on top: what a few runs of the machine itself can mend."
    return ResultTable("conformal", caption, heads, rows)


def _command_figure(use: CommandUse) -> Figure:
    plans = {name: Dot.of(plan.rmse_ratio) for name, plan in use.plans.items()}
    channels = {name: Dot.of(ratio) for name, ratio in use.shuffled_by_channel.items()}
    panels = [
        Dots.single_series(title, label, "ratio", dots, reference=1.0, limits=(0.5, 4.0))
        for title, label, dots in (
            ("All channels together", "RMSE under the false plan / true plan", plans),
            ("Shuffled plan, channel by channel", "RMSE ratio", channels),
        )
        if dots
    ]
    caption = "Dots right of the dotted line: the plan matters. 95 % intervals over runs."
    return Figure("command-use", caption, tuple(panels))


def _command_use(use: CommandUse, unit: str) -> ResultTable:
    rows = tuple(
        {"plan": name, **plain(plan), "worse": f"{plan.runs_worse} of {plan.runs}"} for name, plan in use.plans.items()
    )
    heads = columns(
        ("plan", "false plan", "text"), ("meaning", "what it is", "text"), ("rmse", "RMSE"),
        ("rmse_ratio", f"RMSE ratio (95 % over {unit}s)", "interval", "RMSE ratio"),
        ("crps_ratio", "CRPS ratio", "interval", "CRPS ratio"), ("worse", f"{unit}s that got worse", "text"),
    )  # fmt: skip
    caption = (
        f"Command use: errors under false plans, {use.windows:,} windows; the RMSE under the true plan is "
        f"{number(use.true_rmse)}."
    )
    return ResultTable("command-use", caption, heads, rows)


def _counterfactual_figure(content: Mapping[str, Any]) -> Figure:
    panel = Dots.single_series(
        f"Effect foreseen on {content['machine']}", "R² of the predicted change (1 = all of it)", "effect",
        {name: Dot.of(Interval(**row["effect_r2"])) for name, row in _changed_plans(content).items()},
        reference=0.0, limits=(-1.0, 1.0),
    )  # fmt: skip
    return Figure("counterfactual", "How much of the true effect of a changed plan is foreseen.", (panel,))


def _changed_plans(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: row for name, row in content.items() if isinstance(row, Mapping) and "effect_r2" in row}


def _counterfactual(content: Mapping[str, Any]) -> ResultTable:
    rows = tuple(
        {
            "plan": name, "meaning": row["meaning"], "rmse": row["rmse"], "not_told": row["rmse_not_told"],
            "persistence": row["rmse_persistence"], "effect": row["effect_r2"],
        }
        for name, row in _changed_plans(content).items()
    )  # fmt: skip
    heads = columns(
        ("plan", "changed plan", "text"), ("meaning", "what it is", "text"), ("rmse", "RMSE"),
        ("not_told", "RMSE, change not told"), ("persistence", "persistence"),
        ("effect", "effect foreseen, R² (95 % over jobs)", "interval", "Effect $R^2$"),
    )  # fmt: skip
    caption = (
        f"Changed plans, {content['cases']} moments of {len(content['jobs'])} jobs, rolled out by the simulator as "
        "they were and under changed plans: the truth about commands."
    )
    return ResultTable("counterfactual", caption, heads, rows)


def _robustness_figure(found: "Evaluation", model: str) -> Figure:
    content = (found.robustness or {})[model]
    rows, series = _corruptions(content), []
    for severity, colour in _SEVERITY.items():
        ratios = [row[severity].get("rmse_ratio") for row in rows.values()]
        series.append((severity, colour, tuple(Dot.of(Interval(**ratio) if ratio else None) for ratio in ratios)))
    panels: list[XY | Dots] = [
        Dots("RMSE over clean RMSE", "ratio", tuple(rows), tuple(series), reference=1.0, limits=(0.5, 4.0))
    ]
    curve = (found.channel_curve or {}).get(model, {})
    draws = [(int(count), row["ratio"]) for count, drawn in curve.items() if count.isdigit() for row in drawn]
    slower = [
        (int(factor), row["rmse_ratio"]["estimate"])
        for factor, row in (found.slower_logging or {}).get(model, {}).items()
        if factor.isdigit() and "rmse_ratio" in row
    ]
    for title, x_label, y_label, points, style in (
        ("Only some channels visible", "visible channels", "RMSE / all visible", draws, "points"),
        ("A slower logger", "times the period", "RMSE / clean", slower, "line"),
    ):
        if points:
            line = Line(title, [x for x, _ in points], [y for _, y in points], 0, style)  # type: ignore[arg-type]
            panels.append(XY(title, x_label, y_label, (line,), level=(1.0, "unharmed")))
    caption = (
        f"{content['windows']} windows of the {'source' if found.trained_on_this_table else 'target'}: error under "
        "each corruption over the error without it; what hidden channels and a slower logger cost."
    )
    legend = tuple((severity, colour, "points") for severity, colour in _SEVERITY.items())
    return Figure("robustness", caption, tuple(panels), legend)


def _corruptions(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: row for name, row in content.items() if isinstance(row, Mapping) and "light" in row}


def _robustness(content: Mapping[str, Any]) -> ResultTable:
    rows = []
    for corruption, row in _corruptions(content).items():
        line: dict[str, Any] = {"corruption": corruption, "meaning": row["meaning"]}
        for severity in _SEVERITY:
            line[f"{severity}_ratio"] = row[severity].get("rmse_ratio") or "failed"
            line[f"{severity}_coverage"] = row[severity].get("coverage90")
        rows.append(line)
    heads = [("corruption", "corruption", "text"), ("meaning", "what it is", "text")]
    for severity in _SEVERITY:
        heads += [
            (f"{severity}_ratio", f"{severity}: RMSE ratio", "interval"),
            (f"{severity}_coverage", f"{severity}: in 90 %", "share"),
        ]
    caption = (
        f"Robustness: every corruption in numbers; clean RMSE {content['clean']['rmse']:.3f}, ratios with 95 % "
        "intervals over runs."
    )
    return ResultTable("robustness", caption, columns(*heads), tuple(rows), folded=True)


def fan_charts(found: "Evaluation", model: str) -> dict[str, Figure]:
    """Forecasts against what happened, with the commands below, one figure for each channel: power comes first."""
    examples = found.examples.get(model) or []
    units = {name: channel["unit"] for example in examples for name, channel in example["channels"].items()}
    names = sorted(units, key=lambda name: units[name] not in ("kW", "W"))
    return {name: _fan_chart(name, examples, found.period) for name in names}


def _fan_chart(name: str, examples: Sequence[Mapping[str, Any]], period: float) -> Figure:
    shown = [example for example in examples if name in example["channels"]]
    panels = tuple(panel for example in shown for panel in (_fan(example, name, period), _commands(example, period)))
    commands = list(dict.fromkeys(command for example in shown for command in example["commands"]))
    legend = (*_FORECASTS, *((command, 1 + at % 5, "line") for at, command in enumerate(commands)))
    caption = (
        f"{name}: observed before and after the moment of the forecast, the mean of the forecast with its 50 % and "
        "90 % intervals, and below it the commands, each as a share of its largest value."
    )
    return Figure(f"forecast-{name}", caption, panels, legend, stacked=2)


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
    for at, (name, command) in enumerate(example["commands"].items()):
        values = [*command["before"], *command["after"]]
        largest = max((abs(value) for value in values if value is not None), default=0.0) or 1.0
        label = f"{name} (of {largest:,.0f} {command['unit']})"
        shares = [None if value is None else value / largest for value in values]
        lines.append(Line(label, steps, shares, 1 + at % 5, "step"))
    return XY("commands", "seconds from now", "share of max.", tuple(lines), moment=0.0, low=True)
