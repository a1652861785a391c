"""The result of adapting: one type that terminal, JSON file, report and notebook render."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from crossfeed.evaluation.result import ModelFacts
from crossfeed.evaluation.statistics import Interval
from crossfeed.evaluation.verdict import Metrics
from crossfeed.files import plain
from crossfeed.show.figures import XY, Dot, Dots, Figure, Line
from crossfeed.show.tables import RecordedResult, ResultTable, columns, share


@dataclass(frozen=True)
class FractionResult:
    """What learning from one leading share of each run brought, on the windows it is judged by."""

    metrics: Metrics
    fraction: float
    support_windows: int
    query_windows: int
    updates: int
    remark: str
    rmse_ratio: Interval  # over zero-shot on the same windows, as the next
    crps_ratio: Interval
    runs: dict[str, float | None]  # RMSE of each
    sensors: dict[str, float | None]  # CRPS of each
    runs_without_support: tuple[str, ...]
    parameters_moved: int


@dataclass(frozen=True)
class FewShotResult:
    """Every share beside zero-shot."""

    config: dict[str, Any]
    fractions: tuple[FractionResult, ...]
    runs_without_query: tuple[str, ...]


@dataclass(frozen=True)
class OnlineResult:
    """Learning while the machine runs, each forecast made before its outcome was learned from."""

    config: dict[str, Any]
    updates: int
    zero_shot: Metrics
    online: Metrics
    rmse_ratio: Interval
    tracked_coverage: dict[str, float | None]
    by_run: dict[str, Metrics]  # RMSE `zero_shot` and `online`, as the next
    by_horizon: dict[str, Metrics]
    mae_ratio: Interval
    crps_ratio: Interval
    parameters_moved: int


@dataclass(frozen=True, repr=False)
class AdaptationResult(RecordedResult):
    """What adapting one model to one table did; what was not asked for is None."""

    RECORD: ClassVar = ("an adaptation", "crossfeed adapt or crossfeed study unseal", "Adapt again.")

    model: ModelFacts | None = None
    table: dict[str, Any] = field(default_factory=dict)
    windows: int = 0
    runs: tuple[str, ...] = ()
    few_shot: FewShotResult | None = None
    online: OnlineResult | None = None
    models: tuple[str, ...] = ()  # files of the adapted ones
    absent_commands: dict[str, float] = field(default_factory=dict)
    sensors_taken_in: tuple[str, ...] = ()  # of this machine, which the model had never met
    not_possible: str = ""  # why, where nothing was measured

    def __bool__(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.few_shot or self.online or self.not_possible)

    def completed_by(self, other: "AdaptationResult") -> "AdaptationResult":
        """This result, with what only the other one has."""
        return replace(self, few_shot=self.few_shot or other.few_shot, online=self.online or other.online)

    def tables(self) -> list[ResultTable]:
        """Every share beside zero-shot, and learning while the machine runs, whichever was measured."""
        shown = [] if self.few_shot is None else [_few_shot_table(self.few_shot)]
        return shown if self.online is None else [*shown, _online_table(self.online)]

    def figures(self) -> list[Figure]:
        """The errors over what was learned from, and those of learning while the machine runs."""
        shown = [] if self.few_shot is None else [_few_shot_figure(self.few_shot)]
        return shown if self.online is None else [*shown, _online_figure(self.online)]


_METRICS = columns(
    ("rmse", "RMSE"), ("mae", "MAE"), ("r2", "R²", "number", "$R^2$"), ("crps", "CRPS"), ("nll", "NLL"),
    ("coverage90", "in 90 %", "share"),
)  # fmt: skip
_LOWEST = ("rmse", "mae", "crps", "nll")
_BOTH = (("zero_shot", "frozen", 1), ("online", "online", 0))


def _few_shot_table(result: FewShotResult) -> ResultTable:
    rows, remarks = [], []
    for row in result.fractions:
        lacking = f"no support from {', '.join(row.runs_without_support)}" if row.runs_without_support else ""
        if row.remark or lacking:
            remarks.append(f"{row.fraction:.0%}: {row.remark or lacking}")
        metrics = {column.key: row.metrics[column.key] for column in _METRICS}
        facts = {
            "fraction": row.fraction,
            "support": row.support_windows,
            "query": row.query_windows,
            "updates": row.updates,
        }
        rows.append({**facts, **metrics, "ratio": plain(row.rmse_ratio)})
    if result.runs_without_query:
        remarks.append(f"No query windows in {', '.join(result.runs_without_query)}")
    asked = columns(
        ("fraction", "learned from", "share"),
        ("support", "windows", "count"),
        ("query", "judged on", "count"),
        ("updates", "updates", "count"),
    )
    ratio = columns(("ratio", "RMSE / zero-shot (95 % over runs)", "interval", "RMSE ratio"))
    heads = (*asked, *_METRICS, *ratio)
    each = result.config.get("query") == "each"
    judged = "each fraction judged on the windows after it" if each else "all judged on the windows after the largest"
    caption = f"Few-shot ({result.config['mode']}), {judged}."
    return ResultTable("few-shot", caption, heads, tuple(rows), lowest=_LOWEST, remarks=tuple(remarks))


def _few_shot_figure(result: FewShotResult) -> Figure:
    rows, x_label = result.fractions, "per cent of each run learned from"
    fractions = [100.0 * row.fraction for row in rows]
    per_run = sorted({run for row in rows for run in row.runs})
    runs = tuple(Line(run, fractions, [row.runs.get(run) for row in rows], 5, "dashed") for run in per_run)

    def line(metric: str) -> Line:
        return Line("all runs", fractions, [row.metrics[metric] for row in rows], 0, "marked")

    panels = (
        XY("RMSE on the query", x_label, "RMSE (z-units)", (*runs, line("rmse"))),
        XY("CRPS", x_label, "CRPS (z-units)", (line("crps"),)),
        XY("Share inside the 90 % interval", x_label, "share", (line("coverage90"),), level=(0.9, "nominal")),
    )
    caption = f"Few-shot adaptation ({result.config['mode']}): thick the pooled error, thin each run."
    return Figure("few-shot", caption, panels, (("all runs", 0, "line"), ("single runs", 5, "dashed")))


def _online_table(result: OnlineResult) -> ResultTable:
    rows = tuple(
        {"model": title, **{column.key: metrics[column.key] for column in _METRICS}, "ratio": ratio}
        for title, metrics, ratio in (
            ("frozen", result.zero_shot, None), ("online", result.online, plain(result.rmse_ratio)),
        )
    )  # fmt: skip
    ratio = columns(("ratio", "RMSE / frozen (95 % over runs)", "interval", "RMSE ratio"))
    heads = (*columns(("model", "model", "text")), *_METRICS, *ratio)
    tracked = ", ".join(f"{float(level):.0%}: {share(inside)}" for level, inside in result.tracked_coverage.items())
    caption = f"Online adaptation ({result.config['mode']}), prequential, {result.updates:,} updates. "
    caption += f"Coverage of intervals tracked while running: {tracked}."
    return ResultTable("online", caption, heads, rows)


def _online_figure(result: OnlineResult) -> Figure:
    horizons, runs = result.by_horizon, result.by_run
    steps = [int(label) for label in horizons]
    lines = tuple(
        Line(title, steps, [row[key] for row in horizons.values()], colour, "marked") for key, title, colour in _BOTH
    )
    dots = tuple((title, colour, tuple(Dot(row[key]) for row in runs.values())) for key, title, colour in _BOTH)
    panels = (
        XY("Online: RMSE by horizon", "rows ahead", "RMSE (z-units)", lines, from_zero=True),
        Dots("Online: RMSE by run", "RMSE (z-units)", tuple(runs), dots),
    )
    caption = "Learning while the machine runs: each forecast is made before its outcome is learned from."
    return Figure("online", caption, panels, tuple((title, colour, "line") for _, title, colour in _BOTH))
