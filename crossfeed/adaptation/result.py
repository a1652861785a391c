"""The result of adapting: one type that terminal, JSON file, report and notebook render."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

from pydantic import BeforeValidator

from crossfeed.configuration import recorded
from crossfeed.evaluation.records import UNKNOWN, Metrics, MetricsInline
from crossfeed.evaluation.result import ModelFacts
from crossfeed.evaluation.statistics import Interval
from crossfeed.json_file import plain


@dataclass(frozen=True)
class FractionResult(MetricsInline):
    """What learning from one leading share of each run brought, on the windows it is judged by."""

    fraction: float
    support_windows: int
    query_windows: int
    updates: int
    remark: str
    rmse_ratio: Interval  # over zero-shot on the same windows, as the next
    crps_ratio: Interval = UNKNOWN
    runs: dict[str, float | None] = field(default_factory=dict)  # RMSE of each
    sensors: dict[str, float | None] = field(default_factory=dict)  # CRPS of each
    runs_without_support: tuple[str, ...] = ()
    parameters_moved: int = 0


@dataclass(frozen=True)
class FewShotResult:
    """Every share beside zero-shot."""

    config: dict[str, Any]
    fractions: tuple[Annotated[FractionResult, BeforeValidator(FractionResult.gathered)], ...]
    runs_without_query: tuple[str, ...] = ()


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
    mae_ratio: Interval = UNKNOWN
    crps_ratio: Interval = UNKNOWN
    parameters_moved: int = 0


@dataclass(frozen=True)
class AdaptationResult:
    """What adapting one model to one table did; what was not asked for is None."""

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

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what was not measured is left out."""
        content = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__}
        return {name: value for name, value in content.items() if value not in (None, "")}

    @classmethod
    def from_dict(cls, content: Any, origin: str = "The adaptation") -> Self:
        """The very result that `to_dict` wrote; content that is none is refused."""
        writers = "crossfeed adapt or crossfeed study unseal"
        return recorded(cls, content, origin, "an adaptation", writers, "Adapt again.")
