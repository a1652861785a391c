"""The normaliser: location and scale of every channel, fitted once on train rows and never again."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from crossfeed.errors import CheckpointError, TableError
from crossfeed.windows.split import TrainRows

if TYPE_CHECKING:
    import torch

Method = Literal["zscore", "robust", "frame"]
Array = TypeVar("Array", np.ndarray, "torch.Tensor")

# The interquartile range of a normal distribution, in standard deviations.
IQR_OF_A_NORMAL = 1.349
ROBUST_FLOOR = 0.05
_ARRAYS = ("sensor_location", "sensor_scale", "command_location", "command_scale")


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Maps physical units to z-space and back; it carries the hash of the rows that fitted it."""

    method: Method
    floor: float
    sensor_names: tuple[str, ...]
    command_names: tuple[str, ...]
    sensor_location: np.ndarray
    sensor_scale: np.ndarray
    command_location: np.ndarray
    command_scale: np.ndarray
    unseen: tuple[str, ...]
    fitted_on: str

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            values = np.array(getattr(self, name), dtype=np.float64)
            wanted = len(self.sensor_names if name.startswith("sensor") else self.command_names)
            if values.shape != (wanted,) or not np.isfinite(values).all():
                raise CheckpointError(
                    f"The {name.replace('_', ' ')} of the normaliser does not fit its {wanted} channels.",
                    expected="one finite number for each channel",
                )
            if name.endswith("scale") and not (values > 0).all():
                raise CheckpointError("The normaliser has a scale that is not positive.")
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @classmethod
    def fit(cls, train: TrainRows, method: Method = "zscore", floor: float = ROBUST_FLOOR) -> Self:
        """Fit on train rows, absent entries ignored.

        `zscore`: mean and standard deviation (ddof 0). `robust`: median and IQR/1.349, at least `floor` standard
        deviations; `floor=0` is the paper's version, which explodes on channels that hardly ever move.
        Commands are z-scored under both methods.
        """
        if not isinstance(train, TrainRows):
            raise TableError(
                f"A normaliser cannot be fitted on a {type(train).__name__}.",
                expected="the train side of a split",
                remedy="Fit on split.train_rows(table); join several machines with TrainRows.join.",
            )
        if method not in ("zscore", "robust"):
            raise TableError(f"Unknown normaliser method '{method}'.", expected="'zscore' or 'robust'")
        sensor_statistics = channel_statistics(train.sensors, train.schema.sensor_names, method, floor)
        command_statistics = channel_statistics(train.commands, train.schema.command_names, "zscore", floor)
        return cls(
            method=method,
            floor=float(floor),
            sensor_names=train.schema.sensor_names,
            command_names=train.schema.command_names,
            sensor_location=sensor_statistics[0],
            sensor_scale=sensor_statistics[1],
            command_location=command_statistics[0],
            command_scale=command_statistics[1],
            unseen=sensor_statistics[2] + command_statistics[2],
            fitted_on=train.sha256,
        )

    def transform_sensors(self, values: Array) -> Array:
        """Physical units to z-space; absent stays NaN."""
        return _affine(values, self.sensor_location, self.sensor_scale, lambda v, loc, scale: (v - loc) / scale)

    def inverse_sensors(self, values: Array) -> Array:
        """Z-space to physical units."""
        return _affine(values, self.sensor_location, self.sensor_scale, lambda v, loc, scale: v * scale + loc)

    def transform_commands(self, values: Array) -> Array:
        """Physical set-points to z-space."""
        return _affine(values, self.command_location, self.command_scale, lambda v, loc, scale: (v - loc) / scale)

    def inverse_commands(self, values: Array) -> Array:
        """Z-space to physical set-points."""
        return _affine(values, self.command_location, self.command_scale, lambda v, loc, scale: v * scale + loc)

    @property
    def sensor_zero(self) -> np.ndarray:
        """Where the physical zero of every sensor lies in z-space."""
        return self.transform_sensors(np.zeros(len(self.sensor_names)))

    def zero_within(self, reach: float) -> tuple[np.ndarray, np.ndarray]:
        """The physical zero of every sensor (0 if out of reach), and whether it lies within `reach` of the mean."""
        zero_C = self.sensor_zero
        reached_C = np.isfinite(zero_C) & (np.abs(zero_C) <= reach)
        return np.where(reached_C, zero_C, 0.0).astype(np.float32), reached_C

    @property
    def command_zero(self) -> np.ndarray:
        """Where every command stands still in z-space."""
        return self.transform_commands(np.zeros(len(self.command_names)))

    def to_json(self) -> str:
        """The normaliser as text; every number comes back bit for bit."""
        content: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps(content | {name: content[name].tolist() for name in _ARRAYS}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        try:
            content = json.loads(text)
            for name in ("sensor_names", "command_names", "unseen"):
                content[name] = tuple(content[name])
            return cls(**content)
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"The normaliser cannot be read: {error}", expected="the text that Normaliser.to_json wrote"
            ) from error

    def hash(self) -> str:
        """SHA-256 over everything the normaliser says."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def completed_by(self, other: "Normaliser") -> "Normaliser":
        """The sensors of another normaliser of the same commands: as here where this one saw them, else as there."""
        seen = {name: place for place, name in enumerate(self.sensor_names) if name not in self.unseen}
        if all(name in seen or name in other.unseen for name in other.sensor_names):
            return self
        location, scale = other.sensor_location.copy(), other.sensor_scale.copy()
        for place, name in enumerate(other.sensor_names):
            if name in seen:
                location[place], scale[place] = self.sensor_location[seen[name]], self.sensor_scale[seen[name]]
        unseen = [name for name in other.sensor_names if name in other.unseen and name not in seen]
        return replace(
            self,
            sensor_names=other.sensor_names,
            sensor_location=location,
            sensor_scale=scale,
            unseen=(*unseen, *(name for name in self.unseen if name in self.command_names)),
            fitted_on=hashlib.sha256(f"{self.fitted_on} {other.fitted_on}".encode()).hexdigest(),
        )

    @property
    def is_placeholder(self) -> bool:
        """Whether it belongs to no machine in particular: see `crossfeed.windows.frame`."""
        return self.method == "frame" and not self.fitted_on

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normaliser) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return int(self.hash()[:15], 16)


def channel_statistics(
    values: np.ndarray, names: tuple[str, ...], method: Method, floor: float
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Location, scale and the channels never seen; a constant channel gets its value and scale 1."""
    location, scale = np.zeros(len(names)), np.ones(len(names))
    unseen = []
    for column, name in enumerate(names):
        seen = values[:, column]
        seen = seen[~np.isnan(seen)]
        if not len(seen):
            unseen.append(name)
            continue
        if not np.isfinite(seen).all():
            raise TableError(
                f"Channel '{name}' holds infinite values in the train rows.",
                expected="finite numbers, or null where nothing was measured",
                remedy="Declare a valid range for the channel when ingesting; what is outside becomes absent.",
            )
        deviation = float(seen.std())
        if seen.min() == seen.max():
            location[column] = seen[0]
        elif method == "zscore":
            location[column], scale[column] = seen.mean(), deviation or 1.0
        else:
            low, middle, high = np.percentile(seen, (25.0, 50.0, 75.0))
            location[column] = middle
            scale[column] = max((high - low) / IQR_OF_A_NORMAL, floor * deviation) or 1.0
    return location, scale, tuple(unseen)


def _affine(values: Array, location: np.ndarray, scale: np.ndarray, formula: Callable[[Any, Any, Any], Any]) -> Array:
    if isinstance(values, np.ndarray):
        return formula(values, location, scale)  # type: ignore[no-any-return]
    # Tables are audited and split without torch; whoever hands over a tensor has already loaded it.
    import torch

    constants = [torch.tensor(array, dtype=values.dtype, device=values.device) for array in (location, scale)]
    return formula(values, *constants)  # type: ignore[no-any-return]
