"""The learning curve: everybody on the same test sessions after 0, 1, 3, ... minutes of the machine's own logs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.baselines.budget import Size
from crossfeed.evaluation.baselines.contenders import Setting, contender
from crossfeed.evaluation.baselines.results import Result, over_seeds
from crossfeed.evaluation.bench.fleet import open_fleet
from crossfeed.evaluation.bench.own_logs import FIRST_ROWS, OwnLogs, sensors_left_out
from crossfeed.evaluation.bench.result import (
    ALL,
    METRICS,
    MINUTES,
    Crossing,
    CurvePoint,
    LearningCurve,
    crossing,
    in_words,
    parse_minutes,
    spoken,
)
from crossfeed.evaluation.bench.runner import TEST, CurveRun, CurveRunner, CurveSetting, do_curve_runs, effort
from crossfeed.files import claim
from crossfeed.logs.align import as_table
from crossfeed.logs.table import Table
from crossfeed.model.model_file import FLEET
from crossfeed.model.new_machine import readable_schema
from crossfeed.model.world_model import choose_device
from crossfeed.schema import canonical
from crossfeed.show.figures import COLOURS, XY, Figure, Line
from crossfeed.show.tables import Column, ResultTable, columns, plural
from crossfeed.training.run_config import preset
from crossfeed.windows.split import By

MODELS = "fleet,crossfeed,tide,trees,persistence"


def curve(
    table: Table | Path | str, models: str | Sequence[str] = MODELS, minutes: str | Sequence[float | str] = MINUTES,
    out: Path | str | None = None, *, size: Size = "compact", budget: str = "quick", seeds: int = 1, jobs: int = 1,
    fleet: Path | str = FLEET, split_by: By = "session", windows: int = 4000, device: str = "auto",
) -> LearningCurve:  # fmt: skip
    """Errors against minutes of own logs, and from how many minutes on each model is better than the fleet.

    Some sessions of the table are kept to judge by; the first `minutes` of the others are learned from. `models`:
    `fleet` and any name of `crossfeed compare`. The result prints, and has `plot()`, `to_pandas()` and `crossings`.
    With `out` everything is kept there, and what it already holds is not run again.

    Examples:
        >>> import crossfeed as cf
        >>> found = cf.curve("a.parquet", models="ridge,persistence", minutes=[0, 5], size="tiny")
        >>> found.to_pandas()[["model", "minutes"]].values.tolist()
        [['ridge', 0.0], ['persistence', 0.0], ['ridge', 5.0], ['persistence', 5.0]]
        >>> found.point("ridge", "0").remark
        'too little to learn from: 0 rows do not give three pieces with windows of 48 rows'
    """
    if out is None:
        with TemporaryDirectory(prefix="crossfeed-") as temporary:
            return curve(
                table, models, minutes, Path(temporary) / "curve", size=size, budget=budget, seeds=seeds, jobs=jobs,
                fleet=fleet, split_by=split_by, windows=windows, device=device,
            )  # fmt: skip
    table = as_table(table, canonical())
    if min(seeds, jobs, windows) < 1:
        raise ConfigError(
            f"{seeds} seeds, {jobs} jobs and {windows} windows were asked for.", expected="at least one of each"
        )
    asked, names = parse_minutes(minutes), _names(models)
    device = str(choose_device(device))
    any_effort = Setting(effort(budget, size, 1000), size, device, {})
    # Who cannot take part is said before anything is trained.
    seeds_of = {name: range(seeds) if name == FLEET else contender(name, any_effort).seeds(seeds) for name in names}
    setting, left_out = _set_up(
        table, names, size, budget, windows, fleet, device, split_by, Path(out)
    )  # fmt: skip
    runner = CurveRunner(setting)
    amounts, notes = _amounts(asked, setting.logs)
    identity = {
        "table": table.fingerprint(), "sensors": setting.logs.table.shown(), "size": size, "budget": budget,
        "split_by": split_by, "judged": {name: len(ends) for name, ends in runner.judged.ends.items()},
        "space": runner.judged.space.hash(), "context": runner.judged.context,
        "horizons": runner.judged.horizons,
    }  # fmt: skip
    claim(setting.folder, "setting.json", identity, "a learning curve")
    # Nothing is learned at 0 minutes, so chance plays no part there.
    plan = [(name, one, seed) for one in amounts for name in names for seed in (seeds_of[name] if one else (0,))]
    found = do_curve_runs(plan, runner, jobs)
    points = tuple(_point(name, one, amounts[one], found) for one in amounts for name in names)
    drawn = LearningCurve(
        machine=table.machines()[0], period=table.period, own_minutes=setting.logs.minutes,
        windows=len(runner.judged), sessions=len(runner.judged.ends), size=size, budget=budget,
        sensors=setting.logs.table.shown(), points=points, crossings=(),
        notes=(
            *_meaning(runner), *notes, *(f"Not judged: {name}, {why}." for name, why in left_out.items()),
        ),
    )  # fmt: skip
    drawn = replace(drawn, crossings=_crossings(drawn))
    drawn.write(setting.folder)
    return drawn


def _names(models: str | Sequence[str]) -> tuple[str, ...]:
    given = models.split(",") if isinstance(models, str) else models
    names = tuple(dict.fromkeys(name.strip() for name in given if name.strip()))
    if not names:
        raise ConfigError("No model was named.", expected=f"names separated by commas, such as {MODELS}")
    return names


def _set_up(
    table: Table, names: Sequence[str], size: Size, budget: str, windows: int, fleet: Path | str, device: str,
    split_by: By, folder: Path,
) -> tuple[CurveSetting, dict[str, str]]:  # fmt: skip
    """Windows as the fleet reads them, or else those of the preset; the sessions divided; sensors left out."""
    config = preset("crossfeed", size)
    data = config.data.model_copy(update={"split_by": split_by})
    logs = OwnLogs.of(table, data)
    opened = open_fleet(fleet, device) if FLEET in names else None
    changes: dict[str, object] = {}
    read_as_commands: dict[str, str] = {}
    if opened is not None:
        model = opened.model
        changes = {"context": model.config.context, "horizons": model.horizons}
        read = readable_schema(table.schema, model.schema).sensor_names
        read_as_commands = {
            name: "the fleet reads it as a command" for name in table.schema.sensor_names if name not in read
        }
    config = config.model_copy(update={"model": config.model.model_copy(update=changes), "data": data})
    left_out = sensors_left_out(logs, config.model.context + config.model.horizons[-1]) | read_as_commands
    shown = table.without(left_out)
    if not shown.present().any():
        raise TableError(
            "No sensor is left to judge by.",
            expected="a sensor that is measured from the beginning and moves",
            remedy="; ".join(f"{name}: {why}" for name, why in left_out.items()) + ".",
        )
    setting = CurveSetting(
        logs=replace(logs, table=shown), config=config, size=size, budget=budget, most_windows=windows,
        fleet=opened.path if opened else None, device=device, folder=folder,
    )  # fmt: skip
    return setting, left_out


def _amounts(asked: Sequence[float], logs: OwnLogs) -> tuple[dict[float, float], list[str]]:
    """The minutes that the own logs hold, each with its true length, and a remark on those that they do not."""
    known = {one: logs.minutes if one == ALL else one for one in asked if one == ALL or one <= logs.minutes}
    missing = [in_words(one) for one in asked if one not in known]
    if not known:
        raise TableError(
            f"The own logs hold {spoken(logs.minutes)} beside the sessions that are judged.",
            expected=f"at least the {missing[0]} minutes that were asked for",
            remedy="Ask for fewer minutes, or for all of them: --minutes 0,all",
        )
    told = f"The own logs hold {spoken(logs.minutes)} beside the judged sessions"
    return known, [f"{told}; {', '.join(missing)} could not be asked." if missing else f"{told}."]


def _point(name: str, asked: float, minutes: float, found: Mapping[CurveRun, Result]) -> CurvePoint:
    """One model's runs after so many minutes, together."""
    mine = [result for run, result in found.items() if run[:2] == (name, asked)]
    results = [result for result in mine if result.status != "not run"]
    reason = next((result.reason for result in mine if result.status == "not run"), "")
    row = over_seeds(name, results, (TEST,), reason)
    kept = sorted({str(one.details["kept"]) for one in results if "kept" in one.details})
    return CurvePoint(
        model=name, label=in_words(asked), minutes=minutes, seeds=row.seeds, seconds=row.seconds,
        mean={metric: row.mean.get(f"{TEST}.{metric}") for metric in (*METRICS, "command_use")},
        spread={metric: row.spread.get(f"{TEST}.{metric}") for metric in (*METRICS, "command_use")},
        kept=" or ".join(kept), remark=row.remark,
    )  # fmt: skip


def _crossings(curve: LearningCurve) -> tuple[Crossing, ...]:
    if FLEET not in curve.models:
        return ()
    errors: dict[str, list[tuple[float, float]]] = {model: [] for model in curve.models}
    for point in curve.points:
        if crps := point.mean["crps"]:
            errors[point.model].append((point.minutes, crps))
    fleet = errors.pop(FLEET)
    found = (crossing(model, fleet, own) for model, own in errors.items())
    return tuple(one for one in found if one is not None)


def _meaning(runner: CurveRunner) -> list[str]:
    """Without these sentences the numbers mean little."""
    judged, setting = runner.judged, runner.setting
    return [
        f"Everybody is judged on the same {plural(len(judged), 'window')} of {plural(len(judged.ends), 'session')} "
        "that nobody learns from, over all horizons, in standard deviations of all own logs.",
        f"The first minutes of the other sessions, in the order of time, are learned from; normalisers see them alone. "
        f"Size {setting.size}, budget {setting.budget}.",
        f"At 0 minutes the fleet knows the first {FIRST_ROWS} rows of each judged session, and naive baselines have "
        "the spread of their errors in them; windows that end inside these rows are judged for nobody.",
    ]


# A learning curve as tables and as one figure: the error and the share inside the 90 % intervals over minutes.


_LOWEST = ("crps", "rmse", "mae", "nll")
_CLOSEST = 0.12  # decades between two ticks that both have room for a word
_HIGHEST = 4.0  # times the largest error of the best: what is above is cut off, and said


def positions(curve: LearningCurve) -> dict[float, float]:
    """Where each number of minutes stands: over its logarithm, and 0 half a decade before the first of the others."""
    minutes = [point.minutes for point in curve.points]
    above = [math.log10(one) for one in minutes if one > 0]
    zero = min(above, default=0.0) - 0.5
    return {one: math.log10(one) if one > 0 else zero for one in minutes}


def ticks(curve: LearningCurve) -> tuple[tuple[float, str], ...]:
    """Each number of minutes at its position; `all` makes room where it would stand upon its neighbour."""
    minutes = {point.label: point.minutes for point in curve.points}
    position = positions(curve)
    found: list[tuple[float, str]] = []
    for label, one in sorted(minutes.items(), key=lambda item: item[1]):
        if found and position[one] - found[-1][0] < _CLOSEST:
            found[-1] = (found[-1][0], f"{found[-1][1]}, {label}")
        else:
            found.append((position[one], label))
    return tuple(found)


def highest(curve: LearningCurve, metric: str) -> float | None:
    """Above which error a line leaves the picture, so that one model without a clue does not flatten all others."""
    known = [value for label in curve.labels if (value := curve.best(metric, label)) is not None]
    return _HIGHEST * max(known) if known and min(known) > 0 else None


def figure(curve: LearningCurve, metrics: Sequence[str] = ("crps", "rmse", "coverage90")) -> Figure:
    """One panel for each metric, one line for each model."""
    colours = {model: number % len(COLOURS) for number, model in enumerate(curve.models)}
    panels, cut = [], dict[str, None]()
    for metric in metrics:
        top = None if metric == "coverage90" else highest(curve, metric)
        lines = tuple(_line(curve, model, metric, colour, top) for model, colour in colours.items())
        cut |= dict.fromkeys(line.name for line in lines if top and _above(curve, line.name, metric, top))
        share = metric == "coverage90"
        title = "inside the 90 % intervals" if share else f"{METRICS[metric]} on {curve.machine}"
        y_label = "share" if share else f"{METRICS[metric]} (z-units)"
        panels.append(
            XY(title, "minutes of own logs", y_label, lines, level=(0.9, "nominal") if share else None,
               from_zero=not share, ticks=ticks(curve), highest=top)
        )  # fmt: skip
    caption = "Mean over seeds after so many minutes of own logs"
    caption += f"; far above the best and cut off: {', '.join(cut)}." if cut else "."
    return Figure("curve", caption, tuple(panels), tuple((model, colour, "line") for model, colour in colours.items()))


def _line(curve: LearningCurve, model: str, metric: str, colour: int, top: float | None) -> Line:
    position, points = positions(curve), [curve.point(model, label) for label in curve.labels]
    values = [point.mean.get(metric) for point in points]
    shown = [None if value is None or (top is not None and value > top) else value for value in values]
    return Line(model, [position[point.minutes] for point in points], shown, colour, "marked")


def _above(curve: LearningCurve, model: str, metric: str, top: float) -> bool:
    values = (curve.point(model, label).mean.get(metric) for label in curve.labels)
    return any(value is not None and value > top for value in values)


def metric_table(curve: LearningCurve, metric: str) -> ResultTable:
    """One row for each model, one column for each number of minutes."""
    rows = []
    for model in curve.models:
        points = [curve.point(model, label) for label in curve.labels]
        values = [{"estimate": point.mean.get(metric), "spread": point.spread.get(metric)} for point in points]
        rows.append({"model": model, **dict(zip(curve.labels, values, strict=True))})
    labels = tuple(Column(label, label, "share" if metric == "coverage90" else "number") for label in curve.labels)
    return ResultTable(
        f"curve-{metric}", f"{METRICS[metric]} on {curve.machine} after so many minutes of own logs",
        (Column("model", "minutes of own logs", "text"), *labels), tuple(rows),
        lowest=curve.labels if metric in _LOWEST else (),
    )  # fmt: skip


def points_table(curve: LearningCurve) -> ResultTable:
    """Every model after so many minutes, with all that was measured."""
    rows = tuple(
        {**row, "minutes": row["minutes"] if row["label"] != "all" else round(row["minutes"], 1)}
        for row in curve.rows()
    )
    heads = columns(
        ("model", "model", "text"), ("minutes", "minutes"), ("seeds", "seeds", "count"), ("crps", "CRPS"),
        ("rmse", "RMSE"), ("mae", "MAE"), ("nll", "NLL"), ("coverage90", "in 90 %", "share"),
        ("seconds", "training", "seconds"), ("kept", "fleet", "text"), ("remark", "remark", "text"),
    )  # fmt: skip
    caption = f"Every model after so many minutes; {curve.windows:,} windows of {curve.sessions} sessions."
    return ResultTable("curve", caption, heads, rows, folded=True)
