"""What a smaller file costs: the CRPS on given windows before and after, known before anything is written."""

from dataclasses import dataclass

from crossfeed.errors import ConfigError
from crossfeed.evaluation.evaluate import EvaluationSet, evaluate
from crossfeed.evaluation.forecaster import Forecaster

HIGHEST_PRICE = 0.01
WINDOWS = 2500


@dataclass(frozen=True)
class Price:
    """CRPS on given windows before a model was made smaller and after."""

    windows: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """By which part the CRPS grew."""
        return self.after / self.before - 1.0

    def check(self, force: bool) -> None:
        """Refuse int8 that costs too much, unless it is wanted all the same."""
        if self.share > HIGHEST_PRICE and not force:
            raise ConfigError(
                f"In int8 the CRPS grows by {100 * self.share:.1f} % ({self.before:.4f} to {self.after:.4f} on "
                f"{self.windows} windows).",
                expected=f"at most {100 * HIGHEST_PRICE:g} %",
                remedy="Export in float32, or take it all the same with --force.",
            )


def price(before: Forecaster, after: Forecaster, data: EvaluationSet) -> Price:
    """What the windows of a table say about the two."""
    chosen = data.sample(WINDOWS)
    before_crps, after_crps = (evaluate(each, data, chosen).metrics()["crps"] for each in (before, after))
    if before_crps is None or after_crps is None or before_crps <= 0.0:
        raise ConfigError("The table has no measured value to compare forecasts with.", remedy="Give another table.")
    return Price(len(chosen), before_crps, after_crps)
