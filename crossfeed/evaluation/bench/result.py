"""What a learning curve says, in numbers, tables and one figure: points, and where models overtake the fleet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from crossfeed.errors import ConfigError
from crossfeed.show.figures import COLOURS, XY, Figure, Line, save_figure
from crossfeed.show.formats import markdown
from crossfeed.show.tables import Column, RecordedResult, ResultTable, columns

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawn

ALL = math.inf
MINUTES = "0,1,3,10,30,60,all"
METRICS = {"crps": "CRPS", "rmse": "RMSE", "mae": "MAE", "nll": "NLL", "coverage90": "inside 90 %"}


def parse_minutes(words: str | Sequence[float | str]) -> tuple[float, ...]:
    """Minutes in rising order, each once; `all` is as many as there are."""
    given = words.split(",") if isinstance(words, str) else list(words)
    found = [_number(word) for word in given if str(word).strip()]
    if not found:
        raise ConfigError("No number of minutes was given.", expected=f"numbers and 'all', such as {MINUTES}")
    return tuple(sorted(set(found)))


def in_words(minutes: float) -> str:
    """3, 0.5 or all."""
    return "all" if minutes == ALL else f"{minutes:g}"


def spoken(minutes: float) -> str:
    """3 minutes, 1 minute or all own logs."""
    return "all own logs" if minutes == ALL else f"{minutes:.3g} minute{'' if minutes == 1 else 's'}"


def folder_name(minutes: float) -> str:
    """Where the runs with so many minutes lie."""
    return "all" if minutes == ALL else f"{minutes:g}-minutes"


def _number(word: float | str) -> float:
    if str(word).strip() == "all":
        return ALL
    try:
        number = float(word)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ConfigError(
            f"'{word}' is no number of minutes.", expected=f"numbers from 0 up and 'all', such as {MINUTES}"
        )
    return number


@dataclass(frozen=True)
class Crossing:
    """Between which two measured points the lead changes for good, and about where.

    `after` is None where the model is ahead from the first point on, `by` where it never is.
    """

    model: str
    after: float | None
    by: float | None
    about: float | None
    words: str


def crossing(model: str, fleet: Sequence[tuple[float, float]], own: Sequence[tuple[float, float]]) -> Crossing | None:
    """Where the model overtakes the fleet for good; (minutes, error) of both, at the minutes they share.

    Between two points both errors are joined by straight lines over the logarithm of the minutes.
    """
    theirs = dict(fleet)
    gaps = [(minutes, error - theirs[minutes]) for minutes, error in sorted(own) if minutes in theirs]
    if not gaps:
        return None
    behind = [index for index, (_, gap) in enumerate(gaps) if gap >= 0.0]
    if not behind:
        first = gaps[0][0]
        return Crossing(model, None, first, first, f"{model} is ahead of the fleet from {spoken(first)} on")
    if behind[-1] == len(gaps) - 1:
        last = gaps[-1][0]
        told = (
            f"does not overtake the fleet within {spoken(last)}" if last else "is behind the fleet before any own logs"
        )
        return Crossing(model, last, None, None, f"{model} {told}")
    (after, gap), (by, lead) = gaps[behind[-1]], gaps[behind[-1] + 1]
    told = f"{model} overtakes the fleet between {after:.3g} and {spoken(by)}"
    share = gap / (gap - lead)
    about = math.exp((1.0 - share) * math.log(after) + share * math.log(by)) if after else share * by
    return Crossing(model, after, by, about, f"{told} (about {about:.2g})")


@dataclass(frozen=True)
class CurvePoint:
    """One model after so many minutes: means and standard deviations over seeds, or the reason why there are none."""

    model: str
    label: str
    minutes: float
    seeds: int
    mean: dict[str, float | None]
    spread: dict[str, float | None]
    seconds: float
    kept: str = ""
    remark: str = ""


@dataclass(frozen=True, repr=False)
class LearningCurve(RecordedResult):
    """Errors against minutes of own logs; `print` it, `plot` it, or take it as a frame."""

    RECORD: ClassVar = ("a learning curve", "crossfeed curve", "Draw it again.")

    machine: str
    period: float
    own_minutes: float
    windows: int
    sessions: int
    sensors: tuple[str, ...]
    size: str
    budget: str
    points: tuple[CurvePoint, ...]
    crossings: tuple[Crossing, ...]
    notes: tuple[str, ...]

    @property
    def models(self) -> tuple[str, ...]:
        """Everybody who was asked for, in that order."""
        return tuple(dict.fromkeys(point.model for point in self.points))

    @property
    def labels(self) -> tuple[str, ...]:
        """The numbers of minutes, in rising order."""
        return tuple(dict.fromkeys(point.label for point in self.points))

    def point(self, model: str, label: str) -> CurvePoint:
        """One of the points, by the words it was asked for with."""
        return next(point for point in self.points if (point.model, point.label) == (model, label))

    def best(self, metric: str, label: str) -> float | None:
        """The lowest error of anyone after so many minutes."""
        known = [point.mean.get(metric) for point in self.points if point.label == label]
        return min((value for value in known if value is not None), default=None)

    def rows(self) -> list[dict[str, Any]]:
        """Flat rows: one for each model and number of minutes."""
        return [
            {
                "model": one.model, "label": one.label, "minutes": one.minutes, "seeds": one.seeds,
                **{name: one.mean.get(name) for name in METRICS},
                **{f"{name}_sd": one.spread.get(name) for name in METRICS},
                "seconds": one.seconds, "kept": one.kept, "remark": one.remark,
            }
            for one in self.points
        ]  # fmt: skip

    def to_polars(self) -> "polars.DataFrame":
        """One row for each model and number of minutes."""
        import polars

        return polars.DataFrame(self.rows(), infer_schema_length=None)

    def to_pandas(self) -> Any:
        """The same rows as a pandas frame."""
        from crossfeed.logs.frames import to_pandas

        return to_pandas(self.to_polars())

    def plot(self, metric: str = "crps") -> "Drawn":
        """The error against minutes of own logs, one line for each model, and how honest its intervals are."""
        from crossfeed.show.drawing import draw

        if metric not in METRICS:
            raise ConfigError(f"There is no metric '{metric}'.", expected=f"one of {', '.join(METRICS)}")
        return draw(figure(self, (metric, "coverage90")))

    def write(self, folder: Path | str) -> None:
        """Save curve.json, curve.csv, curve.md, curve.png and curve.svg."""
        folder = Path(folder)
        self.write_as(folder, "curve", self.rows(), written(self))
        figure = self.plot()
        for ending in ("png", "svg"):
            save_figure(figure, folder / f"curve.{ending}")

    def tables(self) -> list[ResultTable]:
        """Errors and coverage by minutes with what is to be said beside them, then every point."""
        *first, last = (metric_table(self, metric) for metric in ("crps", "rmse", "coverage90"))
        return [*first, replace(last, remarks=tuple(remarks(self))), points_table(self)]

    def figures(self) -> list[Figure]:
        """The errors and the coverage over minutes."""
        return [figure(self)]

    def _first_look(self) -> list[ResultTable]:
        return self.tables()[:-1]


def remarks(curve: LearningCurve) -> list[str]:
    """Crossings, what the numbers mean, what the fleet kept, and who could not take part where."""
    told = [f"{one.words}." for one in curve.crossings]
    kept: dict[str, list[str]] = {}
    for point in curve.points:
        if point.kept:
            kept.setdefault(point.kept, []).append(point.label)
    if kept:
        used = [f"{how} at {', '.join(map(_amount, at))}" for how, at in kept.items()]
        told.append(f"The fleet is used {'; '.join(used)}.")
    missing: dict[tuple[str, str], list[str]] = {}
    for point in curve.points:
        if point.remark:
            missing.setdefault((point.remark, point.label), []).append(point.model)
    said = [f"{', '.join(who)} at {_amount(label)}: {why}." for (why, label), who in missing.items()]
    return [*told, *curve.notes, *said]


def _amount(label: str) -> str:
    return label if label == "all" else f"{label} min"


def written(curve: LearningCurve) -> str:
    """The curve for a document: one table for each metric."""
    parts = [markdown(metric_table(curve, metric)) for metric in METRICS]
    said = "\n".join(f"- {remark}" for remark in remarks(curve))
    return "\n\n".join([*parts, said]) + "\n"


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
