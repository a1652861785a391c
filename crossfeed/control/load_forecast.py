"""What lies ahead of the machine if its program goes on as written: sampled loads at the next places.

A decision asks the model twice: what every place brings as written, and what the chosen plan makes of it. Everything in
between is the law of cutting. S samples, T places, K context rows, C sensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from crossfeed.control.margins import StudentTail
from crossfeed.control.mean_rollout import MeanRollout, disagreement_threshold, mean_rollout
from crossfeed.control.timeline import Timeline
from crossfeed.distribution import Distribution
from crossfeed.errors import TableError
from crossfeed.model.world_model import WorldModel
from crossfeed.serving.measures import power_sensors, sample_quantiles
from crossfeed.serving.noise import PERSISTENCE, standard_noise
from crossfeed.serving.plan import PlannedCommands
from crossfeed.serving.rollout import Rollout

SAMPLES = 32
CAUTIOUS = 0.95  # the quantile of a forecast from which its margin is counted


@dataclass(frozen=True, eq=False)
class KnownLoad:
    """A load as written with the tail of what comes above it, in units that grow with the load; all of them (T,)."""

    load_T: np.ndarray
    unit_T: np.ndarray  # what a score of one is worth
    tail: StudentTail
    known_T: np.ndarray  # places of which the tail speaks


@dataclass(frozen=True, eq=False)
class LoadForecast:
    """The loads of the places to come as written; `doubt_T` is how far members disagree, 1 where that is usual.

    `middle` and `high` (T,) hold what a limited load passes with even chance and what it hardly ever passes. `tails`
    say how surely at places that are known; elsewhere whatever `high` lets pass a limit is taken to pass it.
    """

    timeline: Timeline
    paths: Mapping[str, np.ndarray]  # (S, T) by sensor, in the units of the schema
    doubt_T: np.ndarray
    middle: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]
    tails: Mapping[str, KnownLoad] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.timeline)

    @classmethod
    def sampled(cls, timeline: Timeline, paths: Mapping[str, np.ndarray]) -> "LoadForecast":
        """Loads of which nothing but samples is known."""
        middle = {name: np.median(path_ST, axis=0) for name, path_ST in paths.items()}
        high = {name: sample_quantiles(path_ST, (CAUTIOUS,))[0] for name, path_ST in paths.items()}
        return cls(timeline, paths, np.zeros(len(timeline)), middle, high)

    def section(self, first: int, last: int) -> "LoadForecast":
        """Some of its places."""
        own = slice(first, min(last, len(self)))
        timeline = self.timeline.after(float(first), own.stop - first)
        paths = {name: path_ST[:, own] for name, path_ST in self.paths.items()}
        middle, high = ({name: load_T[own] for name, load_T in part.items()} for part in (self.middle, self.high))
        tails = {
            name: KnownLoad(known.load_T[own], known.unit_T[own], known.tail, known.known_T[own])
            for name, known in self.tails.items()
        }
        return LoadForecast(timeline, paths, self.doubt_T[own], middle, high, tails)


class LoadForecaster:
    """A model that has read the rows up to now, ready to be asked about any number of plans."""

    def __init__(self, model: WorldModel, sensors_RC: np.ndarray, commands_RA: np.ndarray) -> None:
        context = model.config.context
        if len(sensors_RC) < context:
            raise TableError(
                f"The history has {len(sensors_RC)} rows.", expected=f"at least {context}, the context of the model"
            )
        self.model = model.eval()
        normaliser = model.normaliser
        self._x_1KC = self._rows(normaliser.transform_sensors(sensors_RC[-context:]))
        self._a_1KA = self._rows(normaliser.transform_commands(commands_RA[-context:]))
        self._present = self._x_1KC[0].isfinite().any(0)
        self.present = np.asarray(self._present.cpu().numpy())

    @property
    def reach(self) -> int:
        """How many rows ahead the model was trained to see."""
        return self.model.horizons[-1]

    def sensors(self, limited: Sequence[str]) -> tuple[str, ...]:
        """Those that decide: the limited ones and every power."""
        return tuple(dict.fromkeys([*limited, *power_sensors(self.model.schema, self.present)]))

    def ahead(self, timeline: Timeline, limited: Sequence[str]) -> LoadForecast:
        """Sampled loads under the program as written, up to the model's reach."""
        timeline = timeline.after(0.0, self.reach)
        names = self.sensors(limited)
        columns = [self.model.schema.sensor_names.index(name) for name in names]
        said = self._rolled(timeline.commands_TA).distribution[0]
        noise_STC = standard_noise(SAMPLES, len(timeline), len(names), 0, PERSISTENCE)
        with torch.inference_mode():
            drawn_STC = Distribution.stack([said[:, columns]] * SAMPLES, 0).from_normal(self._rows(noise_STC))
            middle_TC, high_TC = (said[:, columns].quantile(level) for level in (0.5, CAUTIOUS))
        paths, middle, high = (
            {name: physical(self.model, name, part[..., n]) for n, name in enumerate(names)}
            for part in (drawn_STC, middle_TC, high_TC)
        )
        return LoadForecast(timeline, paths, np.zeros(len(timeline)), middle, high)

    def expected(self, commands_TA: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the model itself expects under other commands: means (T, C), and its doubt (T,); T up to its reach."""
        rolled, model = self._rolled(commands_TA, members=True), self.model
        mean_TC = model.normaliser.inverse_sensors(rolled.distribution.mean[0].double().cpu().numpy())
        apart_T = rolled.apart[0][:, self._present].mean(-1).double().cpu().numpy()
        return mean_TC, apart_T / disagreement_threshold(model)

    def _rolled(self, commands_TA: np.ndarray, members: bool = False) -> MeanRollout:
        planned_1TA = self._rows(self.model.normaliser.transform_commands(commands_TA))
        return mean_rollout(self.model, self._x_1KC, self._a_1KA, planned_1TA, members)

    def _rows(self, values: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(np.asarray(values, dtype=np.float32)).to(self.model.device)
        return tensor if tensor.dim() == 3 else tensor.unsqueeze(0)


def forecast_program(
    rollout: Rollout, timeline: Timeline, limited: Sequence[str], samples: int = SAMPLES, seed: int = 0
) -> LoadForecast:
    """Sampled loads of a whole program as written, however long it is."""
    schema = rollout.model.schema
    names = tuple(dict.fromkeys([*limited, *power_sensors(schema, rollout.present)]))
    noise_STC = standard_noise(samples, len(timeline), len(schema.sensors), seed, PERSISTENCE)
    plan = PlannedCommands(timeline.name, "program", None, timeline.commands_TA)
    paths_STC = rollout.sample(plan, noise_STC)
    return LoadForecast.sampled(timeline, {name: paths_STC[..., schema.sensor_names.index(name)] for name in names})


def physical(model: WorldModel, name: str, values: torch.Tensor) -> np.ndarray:
    """Values of one sensor from z-space in the unit of the schema."""
    column, normaliser = model.schema.sensor_names.index(name), model.normaliser
    scale, location = normaliser.sensor_scale[column], normaliser.sensor_location[column]
    return np.asarray(values.double().cpu().numpy() * scale + location)
