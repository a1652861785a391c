"""Every metric from one table of sums per run, regime, horizon and channel, filled batch by batch for any forecaster.

B windows, R runs, G regimes, H horizons, C channels. Absent entries weigh nothing; whatever lies under them is never
read. Sums live in the evaluation space (z-scores of the source's train rows); physical units follow channel by
channel from the channel's scale, since every error metric scales with the unit. RMSE, bias and R2 are those of the
mean, the MAE is that of the median: each error has its own best guess."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ForecastError, TableError
from crossfeed.evaluation.forecaster import Forecaster, in_parts, masked
from crossfeed.evaluation.verdict import Metrics, Unit
from crossfeed.model.distribution import Distribution
from crossfeed.processes import wide_products
from crossfeed.progress import progress
from crossfeed.schema import Schema
from crossfeed.training.health import persistence
from crossfeed.training.seeds import spread_out
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet

LEVELS = (0.5, 0.8, 0.9, 0.95)
_PERCENTS = tuple(round(100 * level) for level in LEVELS)
PIT_BINS = 20
Axis = Literal["run", "regime", "horizon", "channel"]
AXES: tuple[Axis, ...] = ("run", "regime", "horizon", "channel")
REGIMES = ("idle", "steady", "start-up", "stop")
# A command counts as "on" above this share of its root mean square over the train rows.
ON_SHARE = 0.01
SUMS = (
    "count", "squared", "absolute", "error", "value", "value_squared", "persistence_squared", "persistence_absolute",
    "nll", "crps", *(f"inside{percent}" for percent in _PERCENTS), "width90",
)  # fmt: skip
Change = Callable[[WindowBatch, Tensor], WindowBatch]
OnForecast = Callable[[Tensor, Distribution], None]


@dataclass
class Scores:
    """What one forecaster did on one set of windows."""

    name: str
    runs: tuple[str, ...]
    regimes: tuple[str, ...]
    horizons: tuple[int, ...]
    channels: tuple[str, ...]
    windows: int = 0
    has_density: bool = True
    has_intervals: bool = True
    sums: np.ndarray = field(init=False)
    pit: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        shape = (len(self.runs), len(self.regimes), len(self.horizons), len(self.channels))
        self.sums = np.zeros((*shape, len(SUMS)))
        self.pit = np.zeros((*shape, PIT_BINS))

    def add(
        self,
        forecast: Distribution,
        x_BHC: Tensor,
        present_BHC: Tensor,
        persistence_BHC: Tensor,
        run_B: Tensor,
        regime_BH: Tensor,
        errors_only: bool = False,
    ) -> None:
        """Count one batch in; all values in evaluation space, in double precision and on one device.

        `errors_only` leaves out density, intervals and PIT, of which the search for quantiles is half the work.
        """
        present = present_BHC.bool()
        x = torch.where(present, x_BHC, 0.0)
        nll, pit, inside, width = None, None, [torch.zeros_like(x)] * len(LEVELS), torch.zeros_like(x)
        if errors_only:
            median = forecast.median
        else:
            low, median, high = forecast.quantiles((0.05, 0.5, 0.95))
            nll, pit, width = forecast.nll(x), forecast.cdf(x), high - low
            inside = [forecast.covers(x, level, pit).to(x.dtype) for level in LEVELS]
        mean, crps = forecast.mean, forecast.crps(x)
        error, absolute = mean - x, (median - x).abs()
        persistence = torch.where(present, persistence_BHC, 0.0) - x
        self.has_density &= nll is not None
        self.has_intervals &= forecast.has_intervals and not errors_only
        self._refuse_nan(present & ~torch.isfinite(mean + crps + (0.0 if nll is None else nll)))
        columns = [
            torch.ones_like(x), error.square(), absolute, error, x, x.square(), persistence.square(),
            persistence.abs(), torch.zeros_like(x) if nll is None else nll, crps, *inside, width,
        ]  # fmt: skip
        values_BHCS = torch.where(present[..., None], torch.stack(columns, -1), 0.0)
        horizons, channels = len(self.horizons), len(self.channels)
        step_H, channel_C = (torch.arange(count, device=x.device) for count in (horizons, channels))
        cell_BH = (run_B[:, None] * len(self.regimes) + regime_BH) * horizons + step_H
        _count(self.sums, (-1, channels, len(SUMS)), cell_BH, values_BHCS.flatten(0, 1))
        if pit is not None:
            bin_BHC = (pit * PIT_BINS).long().clamp(0, PIT_BINS - 1)
            entry_BHC = (cell_BH[..., None] * channels + channel_C) * PIT_BINS + bin_BHC
            _count(self.pit, (-1,), entry_BHC, present.to(x.dtype).flatten())
        self.windows += len(x)

    def include(self, other: "Scores") -> None:
        """Add what was counted on another sheet with the same rows and columns."""
        self.windows += other.windows
        self.has_density &= other.has_density
        self.has_intervals &= other.has_intervals
        self.sums += other.sums
        self.pit += other.pit

    def _refuse_nan(self, bad: Tensor) -> None:
        if bad.any():
            where = sorted({self.channels[int(c)] for c in bad.nonzero()[:, 2]})
            raise ForecastError(
                f"Forecaster '{self.name}' returned {int(bad.sum())} values that are no finite number, in "
                f"{', '.join(where)}.",
                expected="a finite mean and spread for every channel that is present",
                remedy="Train it again with a smaller learning rate, or leave it out of the comparison.",
            )

    def metrics(self, **choice: Sequence[str | int]) -> Metrics:
        """Pooled metrics over everything, or over the chosen `run`, `regime`, `horizon` or `channel` labels."""
        return from_sums(self._chosen(self.sums, choice).sum((0, 1, 2, 3)), self.has_density, self.has_intervals)

    def by(self, axis: Axis, **choice: Sequence[str | int]) -> dict[str, Metrics]:
        """One row of metrics per label of `axis`; labels without a single present entry are left out."""
        labels = choice.get(axis, self.labels(axis))
        rows = {label: self.metrics(**(choice | {axis: [label]})) for label in labels}
        return {str(label): row for label, row in rows.items() if row["count"]}

    def run_sums(self, names: Iterable[str], **choice: Sequence[str | int]) -> np.ndarray:
        """Runs x sums, what the bootstrap resamples; runs without a present entry are left out."""
        per_run = self._chosen(self.sums, choice).sum((1, 2, 3))
        columns = [SUMS.index(name) for name in names]
        return np.asarray(per_run[per_run[:, 0] > 0][:, columns])

    def run_rmse(self, **choice: Sequence[str | int]) -> np.ndarray:
        """RMSE of each run in order, NaN where nothing is present: what paired tests compare."""
        per_run = self._chosen(self.sums, choice).sum((1, 2, 3))
        count, squared = per_run[:, SUMS.index("count")], per_run[:, SUMS.index("squared")]
        return np.asarray(np.sqrt(np.divide(squared, count, out=np.full_like(count, np.nan), where=count > 0)))

    def pit_histogram(self, **choice: Sequence[str | int]) -> np.ndarray:
        """Share of observations in each twentieth of the predicted distribution; flat when calibrated."""
        counts = self._chosen(self.pit, choice).sum((0, 1, 2, 3))
        return np.asarray(counts / max(counts.sum(), 1.0))

    def labels(self, axis: Axis) -> Sequence[str | int]:
        """The labels along one axis."""
        labels: Sequence[str | int] = getattr(self, f"{axis}s")
        return labels

    def _chosen(self, array: np.ndarray, choice: dict[str, Sequence[str | int]]) -> np.ndarray:
        for position, axis in enumerate(AXES):
            if axis in choice:
                indices = [self.labels(axis).index(label) for label in choice[axis]]
                array = array.take(indices, axis=position)
        return array


def _count(sums: np.ndarray, shape: tuple[int, ...], index: Tensor, values: Tensor) -> None:
    """Add values to the cells they belong to: summed where they lie, so that a GPU gives back sums alone."""
    here = torch.from_numpy(sums).view(shape)
    batch = torch.zeros(here.shape, dtype=here.dtype, device=values.device)
    here += batch.index_add_(0, index.flatten(), values).cpu()


def from_sums(total_S: np.ndarray, has_density: bool, has_intervals: bool) -> Metrics:
    """Metrics of one pool of entries; None where a metric is not defined there."""
    total = dict(zip(SUMS, (float(value) for value in total_S), strict=True))
    count = total["count"]
    if not count:
        return {"count": 0.0}
    rmse, mae = math.sqrt(total["squared"] / count), total["absolute"] / count
    floor_rmse = math.sqrt(total["persistence_squared"] / count)
    floor_mae = total["persistence_absolute"] / count
    # Values that never move have no variance to explain; rounding must not invent one.
    around_mean = total["value_squared"] - total["value"] ** 2 / count
    constant = around_mean <= 1e-12 * total["value_squared"]
    return {
        "count": count,
        "rmse": rmse,
        "mae": mae,
        "bias": total["error"] / count,
        "r2": None if constant else 1.0 - total["squared"] / around_mean,
        "skill_rmse": 1.0 - rmse / floor_rmse if floor_rmse > 0.0 else None,
        "skill_mae": 1.0 - mae / floor_mae if floor_mae > 0.0 else None,
        "nll": total["nll"] / count if has_density else None,
        "crps": total["crps"] / count,
        **{f"coverage{percent}": total[f"inside{percent}"] / count if has_intervals else None for percent in _PERCENTS},
        "width90": total["width90"] / count if has_intervals else None,
    }


def physical(metrics: Metrics, scale: float) -> Metrics:
    """The metrics of one channel in its own unit, from those in evaluation space."""
    scaled = ("rmse", "mae", "bias", "crps", "width90")
    changed = {name: value * scale for name, value in metrics.items() if name in scaled and value is not None}
    nll = metrics.get("nll")
    return metrics | changed | ({"nll": nll + math.log(scale)} if nll is not None else {})


def regimes(
    last_a_BA: Tensor, future_a_BTA: Tensor, horizons: tuple[int, ...], schema: Schema, normaliser: Normaliser
) -> Tensor:
    """The regime of each window and horizon, as an index into `REGIMES`.

    The last change of the spindle command in (t, t+h] decides: off to on is a start-up, on to off a stop; without a
    change the machine is steady (on) or idle (off). A schema without a rotational-speed command uses all commands.
    """
    spindles = [i for i, command in enumerate(schema.commands) if command.quantity == "rotational speed"]
    columns = spindles or list(range(len(schema.commands)))
    series_BTA = normaliser.inverse_commands(torch.cat([last_a_BA[:, None], future_a_BTA], 1).double())
    threshold_A = series_BTA.new_tensor(ON_SHARE * np.hypot(normaliser.command_location, normaliser.command_scale))
    on_BT = (series_BTA.abs() > threshold_A)[..., columns].any(-1)
    changed_BT = on_BT[:, 1:] != on_BT[:, :-1]
    # Whether any change happened up to t+h; after the last change the machine is on (start-up) or off (stop).
    any_change_BT = changed_BT.cumsum(1) > 0
    steps = torch.tensor(horizons, device=on_BT.device) - 1
    on_BH, change_BH = on_BT[:, 1:][:, steps], any_change_BT[:, steps]
    return torch.where(change_BH, torch.where(on_BH, 2, 3), torch.where(on_BH, 1, 0))


def only_channels(shown: Collection[str], channels: Sequence[str]) -> Change:
    """What hides all other channels of a context and leaves the truth they are judged by."""
    shown_C = torch.tensor([name in shown for name in channels])
    return lambda batch, _: masked(batch, batch.m_BKC & shown_C.to(batch.m_BKC.device))


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
