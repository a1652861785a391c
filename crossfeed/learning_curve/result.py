"""What a learning curve found: one point for each model and number of minutes, and where models overtake the fleet."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from crossfeed.configuration import recorded
from crossfeed.errors import ConfigError
from crossfeed.json_file import plain
from crossfeed.learning_curve.crossings import Crossing
from crossfeed.show.tables import ResultTable, ShownByTables

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawn

    from crossfeed.show.figures import Figure

METRICS = {"crps": "CRPS", "rmse": "RMSE", "mae": "MAE", "nll": "NLL", "coverage90": "inside 90 %"}
FILE = "curve.json"


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
class LearningCurve(ShownByTables):
    """Errors against minutes of own logs; `print` it, `plot` it, or take it as a frame."""

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
        from crossfeed.ingest.frames import to_pandas

        return to_pandas(self.to_polars())

    def to_dict(self) -> dict[str, Any]:
        """As it is written to curve.json."""
        return {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, content: Any, origin: str = "The curve") -> Self:
        """The very curve that `to_dict` gave; content that is none is refused."""
        return recorded(cls, content, origin, "a learning curve", "crossfeed curve", "Draw it again.")

    def plot(self, metric: str = "crps") -> "Drawn":
        """The error against minutes of own logs, one line for each model, and how honest its intervals are."""
        from crossfeed.learning_curve.figure import figure
        from crossfeed.show.drawing import draw

        if metric not in METRICS:
            raise ConfigError(f"There is no metric '{metric}'.", expected=f"one of {', '.join(METRICS)}")
        return draw(figure(self, (metric, "coverage90")))

    def write(self, folder: Path | str) -> None:
        """Save curve.json, curve.csv, curve.md, curve.png and curve.svg."""
        from crossfeed.learning_curve.files import write_curve

        write_curve(self, Path(folder))

    def tables(self) -> list[ResultTable]:
        """Errors and coverage by minutes with what is to be said beside them, then every point."""
        from crossfeed.learning_curve.figure import metric_table, points_table
        from crossfeed.learning_curve.files import remarks

        *first, last = (metric_table(self, metric) for metric in ("crps", "rmse", "coverage90"))
        return [*first, replace(last, remarks=tuple(remarks(self))), points_table(self)]

    def figures(self) -> "list[Figure]":
        """The errors and the coverage over minutes."""
        from crossfeed.learning_curve.figure import figure

        return [figure(self)]

    def _first_look(self) -> list[ResultTable]:
        return self.tables()[:-1]
