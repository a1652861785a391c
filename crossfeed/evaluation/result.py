"""The result of an evaluation: one type that terminal, JSON file, report and notebook render."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from crossfeed.errors import ConfigError
from crossfeed.evaluation.statistics import Interval, PairedTest, Power
from crossfeed.evaluation.verdict import (
    BaselineErrors,
    Calibration,
    ChannelScores,
    CommandUse,
    Metrics,
    Unit,
    Verdict,
    judge_channels,
)
from crossfeed.files import plain, write_sealed
from crossfeed.show.tables import RecordedResult, ResultTable

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure as Drawn

    from crossfeed.show.figures import Figure

# What a probe recorded, as plain data that only tables and figures read.
Record = dict[str, Any]
By = Literal["all", "horizon", "regime", "run", "channel"]


@dataclass(frozen=True)
class ModelFacts:
    """Which model was judged."""

    file: str
    name: str
    sha256: str


@dataclass(frozen=True)
class TableFacts:
    """Which table it was judged on."""

    file: str
    fingerprint: str
    machines: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Evaluation(RecordedResult):
    """What models and naive baselines did on one set of windows; every mapping is by the name of the forecaster.

    Errors are in evaluation space, the z-score of the source's train rows; `by_channel` has them in physical units too.
    `model`, `table` and what follows are known where a model file met a table; a target pass judges several models.

    Examples:
        >>> import crossfeed as cf
        >>> found = cf.evaluate("run", "b.parquet", source="a.parquet")
        >>> sorted(found.scores)
        ['linear drift', 'persistence', 'run']
        >>> cf.Evaluation.from_dict(found.to_dict()).scores == found.scores
        True
        >>> {row["channel"] for row in found.rows("channel")} == {one.channel for one in found.verdict().channels}
        True
    """

    RECORD: ClassVar = ("an evaluation", "crossfeed evaluate or crossfeed study unseal", "Evaluate again.")

    windows: int
    runs: tuple[str, ...]
    scores: dict[str, Metrics]
    intervals: dict[str, dict[str, Interval]]
    by_horizon: dict[str, dict[str, Metrics]]
    by_regime: dict[str, dict[str, Metrics]]
    by_run: dict[str, dict[str, Metrics]]
    by_channel: dict[str, dict[str, ChannelScores]]
    command_use: dict[str, CommandUse]
    calibration: dict[str, Calibration] = field(default_factory=dict)
    examples: dict[str, list[Record]] = field(default_factory=dict)
    comparisons: tuple[tuple[PairedTest, ...], ...] = ()
    power: tuple[Power, ...] = ()
    excluded: dict[str, str] = field(default_factory=dict)
    unit: Unit = "run"
    period: float = 1.0
    space: str = ""
    window_hash: str = ""
    robustness: dict[str, Record] | None = None
    slower_logging: dict[str, Record] | None = None
    channel_curve: dict[str, Record] | None = None
    conformal: dict[str, Record] | None = None
    model: ModelFacts | None = None
    table: TableFacts | None = None
    part: str = "all"
    trained_on_this_table: bool = False
    absent_commands: dict[str, float] = field(default_factory=dict)
    sensors_not_read: tuple[str, ...] = ()  # of the table, which the model never met
    naive_have_spread: bool = True
    counterfactual: Record | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The models that gave numbers; the other names in `scores` are naive baselines."""
        return tuple(self.command_use)

    def verdict(self, model: str | None = None, baselines: BaselineErrors | None = None) -> Verdict:
        """May this model (by default the only one) be trusted on this machine, and on which channels?

        It has to be better than the naive baselines (than the last value by its skill) and than the given ones.
        """
        name = self._only(model)
        naive = {
            other: {channel: row.metrics.get("rmse") for channel, row in rows.items()}
            for other, rows in self.by_channel.items()
            if other not in (*self.models, "persistence")
        }
        return judge_channels(self.by_channel[name], self.command_use.get(name), {**naive, **(baselines or {})})

    def rows(self, by: By = "all") -> list[dict[str, Any]]:
        """Flat rows for a data frame: forecaster, label and every metric; of channels also unit and constancy."""
        if by == "all":
            return [{"forecaster": name, **metrics} for name, metrics in self.scores.items()]
        found: dict[str, dict[str, Any]] = getattr(self, f"by_{by}")
        return [
            {"forecaster": name, by: label, **_flat(row)}
            for name, labelled in found.items()
            for label, row in labelled.items()
        ]

    def to_polars(self, by: By = "channel") -> "polars.DataFrame":
        """One row for each forecaster and channel (or horizon, regime, run; "all" for the headline)."""
        import polars

        from crossfeed.evaluation.result_view import TRUST

        judged = {name: self.verdict(name).channels for name in self.models} if by == "channel" else {}
        trust = {(name, one.channel): TRUST[one.light] for name, channels in judged.items() for one in channels}
        rows = self.rows(by)
        if by == "channel":
            rows = [{**row, "trust": trust.get((row["forecaster"], row["channel"]))} for row in rows]
        return polars.DataFrame(rows)

    def to_pandas(self, by: By = "channel") -> Any:
        """The same rows as a pandas frame."""
        from crossfeed.logs.frames import to_pandas

        return to_pandas(self.to_polars(by))

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines of the table, or of the runs where several tables were opened."""
        return self.table.machines if self.table else tuple(dict.fromkeys(run.split("/")[0] for run in self.runs))

    def tables(self, model: str | None = None) -> list[ResultTable]:
        """The verdict on a model (by default on each), the headline, where the errors lie, and every probe."""
        from crossfeed.evaluation.result_view import headline, tables, verdict_table

        models = self.models if model is None else (self._only(model),)
        if len(models) == 1:
            return [verdict_table(self, models[0]), *tables(self, models[0])]
        probed = [(name, table) for name in models for table in (verdict_table(self, name), *tables(self, name)[1:])]
        return [headline(self), *(replace(table, name=f"{table.name}-{name}") for name, table in probed)]

    def figures(self, model: str | None = None) -> "list[Figure]":
        """Skill, coverage and errors, calibration, command use and robustness of a model, as far as it was probed."""
        from crossfeed.evaluation.result_view import fan_charts, figures

        name = self._only(model)
        return [*figures(self, name), *fan_charts(self, name).values()]

    def plot(self, model: str | None = None) -> "Drawn":
        """Skill and coverage of every channel with their intervals, and the error by horizon beside naive ones."""
        from crossfeed.evaluation.result_view import summary
        from crossfeed.show.drawing import draw

        return draw(summary(self, self._only(model)))

    def _first_look(self) -> list[ResultTable]:
        from crossfeed.evaluation.result_view import headline, verdict_table

        remarks = tuple(f"left out: {name}: {why}" for name, why in self.excluded.items())
        return [*(verdict_table(self, name) for name in self.models), replace(headline(self), remarks=remarks)]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; the verdict on each model is added for readers."""
        return super().to_dict() | {"verdict": {name: plain(self.verdict(name)) for name in self.models}}

    def write(self, folder: Path | str) -> Path:
        """Write `evaluation.json` into a folder."""
        path = Path(folder) / "evaluation.json"
        write_sealed(path, self.to_dict())
        return path

    def _only(self, model: str | None) -> str:
        known = self.models
        if model is None and len(known) == 1:
            return known[0]
        if model not in known:
            asked = "No model was named" if model is None else f"There is no model '{model}'"
            reasons = "; ".join(self.excluded.values())
            raise ConfigError(
                f"{asked} in this evaluation.",
                expected=f"one of {', '.join(known)}" if known else f"a model that gave numbers ({reasons})",
            )
        return model


def _flat(row: Metrics | ChannelScores) -> dict[str, Any]:
    if not isinstance(row, ChannelScores):
        return dict(row)
    own = {f"{name}_physical": value for name, value in row.physical.items()}
    return {"unit": row.unit, "constant": row.constant, **row.metrics, **own}
