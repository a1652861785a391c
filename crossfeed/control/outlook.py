"""What lies ahead of the machine if its program goes on as written: sampled loads at the next places.

The rows before are encoded once for each decision; one decode says what every place brings as written, and a few more
what the model itself thinks of the plans that are left over. S samples, T places, K context rows, C sensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crossfeed.control.course import Course
from crossfeed.distribution import Distribution
from crossfeed.errors import TableError
from crossfeed.model.plan import Plan
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress
from crossfeed.serving.measures import power_sensors
from crossfeed.serving.noise import PERSISTENCE, standard_noise

SAMPLES = 32


@dataclass(frozen=True, eq=False)
class Outlook:
    """The loads of the places to come as written; `doubt_T` is how far members disagree, 1 where that is usual."""

    course: Course
    paths: Mapping[str, np.ndarray]  # (S, T) by sensor, in the units of the schema
    doubt_T: np.ndarray
    basis: tuple[str, ...]  # for every place, where the loads come from

    def __len__(self) -> int:
        return len(self.course)


class Lookout:
    """A model that has read the rows up to now, ready to be asked about any number of plans."""

    def __init__(self, model: WorldModel, sensors_RC: np.ndarray, commands_RA: np.ndarray) -> None:
        context = model.config.context
        if len(sensors_RC) < context:
            raise TableError(
                f"The history has {len(sensors_RC)} rows.", expected=f"at least {context}, the context of the model"
            )
        self.model, self._device = model.eval(), next(model.parameters()).device
        normaliser = model.normaliser
        self._x_1KC = self._rows(normaliser.transform_sensors(sensors_RC[-context:]))
        self._a_1KA = self._rows(normaliser.transform_commands(commands_RA[-context:]))
        self._m_1KC = self._x_1KC.isfinite()
        self._present = self._m_1KC[0].any(0)
        self.present = np.asarray(self._present.cpu().numpy())
        with torch.inference_mode():
            self._context = model.encode(torch.where(self._m_1KC, self._x_1KC, 0.0), self._m_1KC, self._a_1KA)

    @property
    def reach(self) -> int:
        """How many rows ahead the model was trained to see."""
        return self.model.horizons[-1]

    def sensors(self, limited: Sequence[str]) -> tuple[str, ...]:
        """Those that decide: the limited ones and every power."""
        return tuple(dict.fromkeys([*limited, *power_sensors(self.model.schema, self.present)]))

    def ahead(self, course: Course, limited: Sequence[str], samples: int = SAMPLES, seed: int = 0) -> Outlook:
        """Sampled loads under the program as written, up to the model's reach, from one decode."""
        course = course.after(0.0, self.reach)
        names = self.sensors(limited)
        said = self._say(course.commands_TA[None])[0][:, self._columns(names)]
        noise_STC = self._noise(samples, len(course), names, seed)
        with torch.inference_mode():
            drawn_STC = Distribution.stack([said] * samples, 0).from_normal(self._rows(noise_STC))
        return self._outlook(course, names, drawn_STC)

    @torch.inference_mode()
    def roll(self, course: Course, limited: Sequence[str], samples: int = SAMPLES, seed: int = 0) -> Outlook:
        """Sampled loads under a whole program as written: each path goes on from its own rows, a reach at a time."""
        names, model = self.sensors(limited), self.model
        noise_STC = self._noise(samples, len(course), model.schema.sensor_names, seed)
        level = model.level(self._x_1KC.expand(samples, -1, -1), self._m_1KC.expand(samples, -1, -1))
        x_SKC, a_KA, drawn = self._x_1KC.expand(samples, -1, -1), self._a_1KA[0], []
        planned_TA = self._rows(model.normaliser.transform_commands(course.commands_TA))[0]
        context = model.config.context
        with progress(f"Looking ahead through {course.name}", total=len(course)) as task:
            for first in range(0, len(course), self.reach):
                rows = slice(first, min(first + self.reach, len(course)))
                count = rows.stop - first
                plan = Plan.under(planned_TA[rows].expand(samples, -1, -1), tuple(range(1, count + 1)))
                m_SKC = self._present.expand_as(x_SKC) & x_SKC.isfinite()
                read = model.read(torch.where(m_SKC, x_SKC, 0.0), m_SKC, level)
                said = model.follow_paths(read, a_KA.expand(samples, -1, -1), plan)
                drawn_SLC = said.from_normal(self._rows(noise_STC[:, rows]))
                drawn.append(drawn_SLC[..., self._columns(names)])
                x_SKC = torch.cat([x_SKC, torch.where(self._present, drawn_SLC, torch.nan)], 1)[:, -context:]
                a_KA = torch.cat([a_KA, planned_TA[rows]])[-context:]
                task.advance(count)
        return self._outlook(course, names, torch.cat(drawn, 1))

    def expected(self, commands_BTA: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the model itself expects under plans: means (B, T, C), and its doubt (B, T); T up to its reach."""
        said = self._say(commands_BTA)
        mean_BTC = self.model.normaliser.inverse_sensors(said.mean.double().cpu().numpy())
        return mean_BTC, self._doubt(commands_BTA)

    @torch.inference_mode()
    def _say(self, commands_BTA: np.ndarray) -> Distribution:
        return self.model.decode(*self._asked(commands_BTA)).distribution

    @torch.inference_mode()
    def _doubt(self, commands_BTA: np.ndarray) -> np.ndarray:
        """How far the members disagree, in parts of what is usual; a single member has nobody to disagree with."""
        model = self.model
        if not isinstance(model, SensorModel) or len(model.members) == 1:
            return np.zeros(commands_BTA.shape[:2])
        apart_BTC = model.disagreement(*self._asked(commands_BTA))[..., self._present]
        return np.asarray(apart_BTC.mean(-1).double().cpu().numpy()) / max(float(model.usual_doubt), 1e-6)

    def _asked(self, commands_BTA: np.ndarray) -> tuple[Any, Plan]:
        count, steps = commands_BTA.shape[:2]
        future_BTA = self._rows(self.model.normaliser.transform_commands(commands_BTA))
        context = self._context.map(lambda values: values.expand(count, *values.shape[1:]))
        return context, Plan.under(future_BTA, tuple(range(1, steps + 1)))

    def _noise(self, samples: int, steps: int, names: Sequence[str], seed: int) -> np.ndarray:
        return standard_noise(samples, steps, len(names), seed, PERSISTENCE)

    def _columns(self, names: Sequence[str]) -> list[int]:
        return [self.model.schema.sensor_names.index(name) for name in names]

    def _outlook(self, course: Course, names: Sequence[str], z_STC: torch.Tensor) -> Outlook:
        """Physical units, by sensor."""
        values_STC = np.full((*z_STC.shape[:2], len(self.model.schema.sensors)), np.nan)
        values_STC[..., self._columns(names)] = z_STC.double().cpu().numpy()
        values_STC = self.model.normaliser.inverse_sensors(values_STC)
        paths = {name: values_STC[..., column] for name, column in zip(names, self._columns(names))}
        return Outlook(course, paths, np.zeros(len(course)), ("forecast",) * len(course))

    def _rows(self, values: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(np.asarray(values, dtype=np.float32)).to(self._device)
        return tensor if tensor.dim() == 3 else tensor.unsqueeze(0)
