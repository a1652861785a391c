"""Weights in eight bits: a quarter of the size, at a price in CRPS that is measured before it is accepted."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossfeed.errors import ConfigError
from crossfeed.evaluation.evaluate import EvaluationSet, evaluate
from crossfeed.evaluation.forecaster import Forecaster

HIGHEST_PRICE = 0.01
WINDOWS = 2500


@dataclass(frozen=True)
class Price:
    """CRPS on given windows, in float32 and in int8."""

    windows: int
    float32: float
    int8: float

    @property
    def share(self) -> float:
        """By which part the CRPS grew."""
        return self.int8 / self.float32 - 1.0

    def check(self, force: bool) -> None:
        """Refuse what costs too much, unless it is wanted all the same."""
        if self.share > HIGHEST_PRICE and not force:
            raise ConfigError(
                f"In int8 the CRPS grows by {100 * self.share:.1f} % ({self.float32:.4f} to {self.int8:.4f} on "
                f"{self.windows} windows).",
                expected=f"at most {100 * HIGHEST_PRICE:g} %",
                remedy="Export in float32, or take it all the same with --force.",
            )


def in_int8(model: Any) -> Any:
    """The same ONNX model with the weights of its products in int8, one scale for each column."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "float32.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, before)
        quantize_dynamic(before, after, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul"])
        return onnx.load(after)


def price(before: Forecaster, after: Forecaster, data: EvaluationSet) -> Price:
    """What the windows of a table say about the two."""
    chosen = data.sample(WINDOWS)
    before_crps, after_crps = (evaluate(each, data, chosen).metrics()["crps"] for each in (before, after))
    if before_crps is None or after_crps is None or before_crps <= 0.0:
        raise ConfigError("The table has no measured value to compare forecasts with.", remedy="Give another table.")
    return Price(len(chosen), before_crps, after_crps)
