"""The evaluation loop: any forecaster, any set of windows, one space, everything sorted by run and regime.

B windows, H horizons, C channels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from crossfeed.distribution import Distribution
from crossfeed.errors import TableError
from crossfeed.evaluation.forecaster import Forecaster, in_parts
from crossfeed.evaluation.metrics import Scores
from crossfeed.evaluation.records import Unit
from crossfeed.evaluation.regimes import REGIMES, regimes
from crossfeed.products import wide_products
from crossfeed.progress import progress
from crossfeed.schema import Schema
from crossfeed.training.measure.floors import persistence
from crossfeed.training.order import spread_out
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet

Change = Callable[[WindowBatch, Tensor], WindowBatch]
OnForecast = Callable[[Tensor, Distribution], None]


@dataclass(frozen=True)
class EvaluationSet:
    """Windows together with what is needed to score them: the space, the channels and the independent runs.

    `normaliser` made the windows; `space` is the common evaluation space, the z-score of the source's train rows.
    """

    windows: WindowSet
    schema: Schema
    normaliser: Normaliser
    space: Normaliser
    unit: Unit = "run"
    runs: tuple[str, ...] = field(init=False)
    run_W: Tensor = field(init=False)

    def __post_init__(self) -> None:
        if self.space.method == "robust":
            raise TableError(
                f"The evaluation space is a '{self.space.method}' normaliser.",
                expected="the z-score of the source's train rows, the same for every model in a comparison",
                remedy="Name the source table, so that its train rows can give the space.",
            )
        labels = [f"{count.machine}/{getattr(count, self.unit)}" for count in self.windows.counts]
        runs = tuple(dict.fromkeys(labels))
        of_group = torch.tensor([runs.index(label) for label in labels])
        object.__setattr__(self, "runs", runs)
        object.__setattr__(self, "run_W", of_group[self.windows.group_of_window.cpu()])

    def to_space(self) -> tuple[Tensor, Tensor]:
        """Location and scale that carry a value from the windows' z-space to the evaluation space, per channel."""
        scale = self.normaliser.sensor_scale / self.space.sensor_scale
        location = (self.normaliser.sensor_location - self.space.sensor_location) / self.space.sensor_scale
        return torch.from_numpy(np.asarray(location)), torch.from_numpy(np.asarray(scale))

    def sample(self, limit: int) -> Tensor:
        """Evenly spread window numbers, at most `limit`: for probes that need many passes."""
        return spread_out(len(self.windows), limit)

    def scores(self, name: str) -> Scores:
        """An empty score sheet for one forecaster."""
        return Scores(name, self.runs, REGIMES, self.windows.horizons, self.schema.sensor_names)

    def count_in(
        self, scores: Scores, forecast: Distribution, batch: WindowBatch, part: Tensor, errors_only: bool = False
    ) -> None:
        """Score the forecast of one batch; `part` are the numbers of its windows."""
        horizons, device = self.windows.horizons, forecast.mean.device
        location, scale = (part.to(device) for part in self.to_space())
        floor_BHC = persistence(batch.x_BKC, batch.m_BKC, horizons)
        scores.add(
            forecast.map(lambda values: values.detach().double()).moved(location, scale),
            location + scale * batch.future_x_BHC.to(device).double(),
            batch.future_m_BHC.to(device),
            location + scale * floor_BHC.to(device).double(),
            self.run_W[part].to(device),
            regimes(batch.a_BKA[:, -1], batch.future_a_BTA, horizons, self.schema, self.normaliser).to(device),
            errors_only,
        )


@wide_products()
def score_windows(
    forecaster: Forecaster,
    data: EvaluationSet,
    index_W: Tensor | None = None,
    change: Change | None = None,
    title: str = "",
    world: Change | None = None,
    on_forecast: Sequence[OnForecast] = (),
) -> Scores:
    """Score one forecaster; `change` alters what it sees, `world` both that and the truth it is judged by.

    All of `on_forecast` are shown every batch's window numbers and forecast.
    """
    windows = data.windows
    index_W = torch.arange(len(windows)) if index_W is None else index_W
    scores = data.scores(forecaster.name)

    def score(part: Tensor) -> tuple[Scores, Distribution]:
        batch = windows.batch(part.to(windows.last_W.device))
        batch = batch if world is None else world(batch, part)
        forecast = forecaster.predict(batch if change is None else change(batch, part))
        sheet = data.scores(forecaster.name)
        data.count_in(sheet, forecast, batch, part)
        return sheet, forecast

    with progress(title or f"Evaluating {forecaster.name}", len(index_W)) as task:
        for part, (sheet, forecast) in in_parts(forecaster, windows, index_W, score):
            scores.include(sheet)
            for listen in on_forecast:
                listen(part, forecast)
            task.advance(len(part))
    return scores
