"""Forecasts from an exported model with numpy and onnxruntime alone: what runs beside a machine.

    from crossfeed.edge import EdgeModel
    said = EdgeModel("model.onnx").forecast(history, commands)

Neither torch, polars nor pydantic are needed. W windows, K context rows, T planned steps, H horizons, C sensors,
A commands, M components of a mixture.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from crossfeed.errors import CheckpointError, ConfigError
from crossfeed.rows import check_horizons, check_levels, check_plans, check_plausible, read_history, read_plan

FORMAT = "crossfeed-export/1"
INPUTS = ("sensors", "present", "commands", "plan")
# A file ends with one more entry of its metadata: the hash of all bytes before it, so that any change is found.
_SEAL = b"\x72\x4a\x0a\x06sha256\x12\x40"
_SEALED = len(_SEAL) + 64
_ROUNDS = 200
_complementary_error = np.frompyfunc(math.erfc, 1, 1)


@dataclass(frozen=True, eq=False, repr=False)
class EdgeForecast:
    """A distribution for each horizon and sensor, in the sensors' own units.

    Arrays are (H, C) for one window and (W, H, C) for many; `measured` names the sensors the history showed.
    `parameters` are those of the `family`: mean and scale, or weight, mean and scale of each component (last axis).
    """

    horizons: tuple[int, ...]
    sensors: tuple[str, ...]
    units: tuple[str, ...]
    measured: tuple[str, ...]
    family: str
    mean: np.ndarray
    parameters: dict[str, np.ndarray]

    def __repr__(self) -> str:
        ahead = f"{', '.join(map(str, self.horizons))} rows ahead"
        return f"EdgeForecast of {', '.join(self.measured)}, {ahead}: see mean, median, quantiles([0.05, 0.95])"

    @cached_property
    def median(self) -> np.ndarray:
        """The value that is as likely exceeded as not."""
        return np.asarray(self.quantiles([0.5])[0])

    @cached_property
    def standard_deviation(self) -> np.ndarray:
        """The spread around the mean."""
        if self.family == "Gaussian":
            return self.parameters["scale"]
        weight_M, mean_M, scale_M = (self.parameters[name] for name in ("weight", "mean", "scale"))
        away_M = mean_M - (weight_M * mean_M).sum(-1, keepdims=True)
        return np.asarray(np.sqrt((weight_M * (scale_M**2 + away_M**2)).sum(-1)))

    def quantiles(self, levels: Sequence[float]) -> np.ndarray:
        """The values below which the target falls with these probabilities, stacked along a new first axis."""
        check_levels(levels)
        normal = [NormalDist().inv_cdf(level) for level in levels]
        if self.family == "Gaussian":
            return np.stack([self.mean + self.parameters["scale"] * number for number in normal])
        return np.stack([_mixture_quantile(self.parameters, number) for number in normal])


class EdgeModel:
    """An exported model, ready to forecast; `threads` is the number of cores it may use."""

    def __init__(self, path: Path | str, threads: int = 1) -> None:
        self.path = Path(path)
        self._session = _open(self.path, _unsealed(self.path), threads)
        try:
            described = self._session.get_modelmeta().custom_metadata_map
            if (file_format := described.get("format", "unknown")) != FORMAT:
                raise CheckpointError(
                    f"{path} is no model that crossfeed exported (its format is '{file_format}').",
                    expected=f"a file of the format '{FORMAT}', made by crossfeed export",
                )
            self.metadata: dict[str, Any] = {"format": FORMAT, **json.loads(described["crossfeed"])}
            schema, normaliser = self.metadata["schema"], self.metadata["normaliser"]
            self.sensors = tuple(str(channel["name"]) for channel in schema["sensors"])
            self.commands = tuple(str(channel["name"]) for channel in schema["commands"])
            self.units = {
                str(channel["name"]): str(channel["unit"]) for channel in schema["sensors"] + schema["commands"]
            }
            self.horizons = tuple(int(horizon) for horizon in self.metadata["horizons"])
            self.context, self.period = int(self.metadata["context"]), self.metadata["period"]
            self.family = str(self.metadata["family"])
            names = ("sensor_location", "sensor_scale", "command_location", "command_scale")
            self._sensor_location, self._sensor_scale, self._command_location, self._command_scale = (
                np.array(normaliser[name], dtype=np.float64) for name in names
            )
            self._unseen = np.isin(self.sensors, normaliser["unseen"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"What {path} says about itself cannot be read: {error}") from error
        self._outputs = [output.name for output in self._session.get_outputs()]

    def __repr__(self) -> str:
        return (
            f"EdgeModel({str(self.path)!r}): {int((~self._unseen).sum())} sensors under {', '.join(self.commands)}, "
            f"{', '.join(map(str, self.horizons))} rows ahead"
        )

    def forecast(self, history: Any, commands: Any, horizons: Sequence[int] | None = None) -> EdgeForecast:
        """Forecast one window or many, in physical units.

        `history`: at least `context` rows of sensors (any subset, any order, null = not measured) and of all commands,
        the last one being now. `commands`: the planned commands, one row per step, at least as many as the longest
        horizon. Each is a dict of columns, a frame, a list of those, or an array in schema order.
        """
        asked = self.horizons if horizons is None else check_horizons(horizons)
        x_WKC, a_WKA, single = read_history(history, self.sensors, self.commands, self.context)
        plan_WTA = read_plan(commands, self.commands, max(asked))
        check_plans(len(x_WKC), len(plan_WTA))
        if unknown := [horizon for horizon in asked if horizon not in self.horizons]:
            raise ConfigError(
                f"The exported model knows no horizon {', '.join(map(str, unknown))}.",
                expected=f"some of {', '.join(map(str, self.horizons))}",
                remedy="Horizons in between are given by the model it was exported from.",
            )
        # A sensor that the model never saw has no scale: its values would be noise to the network.
        x_WKC = np.where(self._unseen, np.nan, (x_WKC - self._sensor_location) / self._sensor_scale)
        a_WKA = (a_WKA - self._command_location) / self._command_scale
        plan_WTA = (plan_WTA - self._command_location) / self._command_scale
        check_plausible(x_WKC, self.sensors, "history")
        check_plausible(a_WKA, self.commands, "history")
        check_plausible(plan_WTA, self.commands, "planned commands")
        # Steps behind the last horizon asked for are read by no horizon before them.
        behind = self.horizons[-1] - plan_WTA.shape[1]
        plan_WTA = np.concatenate([plan_WTA, np.repeat(plan_WTA[:, -1:], behind, axis=1)], axis=1)
        outputs = self.run(x_WKC, a_WKA, np.broadcast_to(plan_WTA, (len(x_WKC), *plan_WTA.shape[1:])))
        return self._physical(outputs, asked, np.asarray(np.isfinite(x_WKC).any(axis=(0, 1))), single)

    def run(self, x_WKC: np.ndarray, a_WKA: np.ndarray, plan_WTA: np.ndarray) -> dict[str, np.ndarray]:
        """The network itself, in z-units and at all horizons: mean and parameters by name; NaN is what is absent."""
        present_WKC = np.isfinite(x_WKC)
        given = (np.where(present_WKC, x_WKC, 0.0), present_WKC, a_WKA, plan_WTA)
        kinds: tuple[Any, ...] = (np.float32, np.bool_, np.float32, np.float32)
        feed: dict[str, np.ndarray] = {
            name: np.ascontiguousarray(values, kind) for name, values, kind in zip(INPUTS, given, kinds)
        }
        return dict(zip(self._outputs, self._session.run(self._outputs, feed)))

    def _physical(
        self, outputs: dict[str, np.ndarray], asked: tuple[int, ...], present_C: np.ndarray, single: bool
    ) -> EdgeForecast:
        chosen = [self.horizons.index(horizon) for horizon in asked]
        part = {name: values[:, chosen].astype(np.float64) for name, values in outputs.items() if name != "quantiles"}
        location, scale = self._sensor_location, self._sensor_scale
        mean = location + scale * part["mean"]
        if self.family == "Gaussian":
            parameters = {"mean": mean, "scale": scale * part["scale"]}
        else:
            weight_M = np.exp(part["log_weight_M"] - part["log_weight_M"].max(-1, keepdims=True))
            parameters = {
                "weight": weight_M / weight_M.sum(-1, keepdims=True),
                "mean": location[:, None] + scale[:, None] * part["mean_M"],
                "scale": scale[:, None] * part["scale_M"],
            }
        first: Any = 0 if single else slice(None)
        return EdgeForecast(
            horizons=asked,
            sensors=self.sensors,
            units=tuple(self.units[name] for name in self.sensors),
            measured=tuple(name for name, present in zip(self.sensors, present_C) if present),
            family=self.family,
            mean=mean[first],
            parameters={name: values[first] for name, values in parameters.items()},
        )


def sealed(content: bytes) -> bytes:
    """The bytes of a file that tells when it was changed."""
    return content + _SEAL + hashlib.sha256(content).hexdigest().encode()


def _unsealed(path: Path) -> bytes:
    """The bytes of a file, found to be as they were written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.", remedy="Check the path.") from error
    end = content[-_SEALED:]
    if not end.startswith(_SEAL):
        raise CheckpointError(
            f"{path} is no whole model that crossfeed exported.",
            expected="a file made by crossfeed export",
            remedy="Copy it again from where it was made.",
        )
    if end[len(_SEAL) :] != hashlib.sha256(content[:-_SEALED]).hexdigest().encode():
        raise CheckpointError(
            f"{path} was changed after it was written.", remedy="Copy it again from where it was made, or export again."
        )
    return content


def _open(path: Path, content: bytes, threads: int) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ConfigError("onnxruntime is not installed.", remedy="pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a dozen unrelated types for files it does not understand
        raise CheckpointError(
            f"onnxruntime {onnxruntime.__version__} cannot open {path}: {error}", remedy="Install a newer onnxruntime."
        ) from error


def _mixture_quantile(parameters: dict[str, np.ndarray], normal: float) -> np.ndarray:
    """Where as much probability lies below as below `normal` of a standard normal: Newton steps inside a bracket."""
    weight_M, mean_M, scale_M = (parameters[name] for name in ("weight", "mean", "scale"))
    own_M = mean_M + scale_M * normal
    low = np.where(weight_M > 0.0, own_M, np.inf).min(-1)
    high = np.where(weight_M > 0.0, own_M, -np.inf).max(-1)
    # The smaller of the two tails is compared, so that nothing is lost to rounding far out.
    side = -1.0 if normal > 0.0 else 1.0
    wanted = 0.5 * math.erfc(-side * normal * math.sqrt(0.5))
    x, step = 0.5 * (low + high), high - low
    for _ in range(_ROUNDS):
        z_M = (x[..., None] - mean_M) / scale_M
        tail = (weight_M * 0.5 * _complementary_error(-side * math.sqrt(0.5) * z_M).astype(np.float64)).sum(-1)
        slope = (weight_M * np.exp(-0.5 * z_M**2) / (scale_M * math.sqrt(2.0 * math.pi))).sum(-1)
        value = side * (tail - wanted)
        low, high = np.where(value < 0.0, x, low), np.where(value < 0.0, high, x)
        newton = x - value / np.maximum(slope, np.finfo(np.float64).tiny)
        good = (newton > low) & (newton < high) & (np.abs(newton - x) < 0.5 * step)
        following = np.where(np.abs(value) <= 1e-12 * wanted, x, np.where(good, newton, 0.5 * (low + high)))
        step = np.abs(following - x)
        if (following == x).all():
            break
        x = following
    return np.asarray(x)
