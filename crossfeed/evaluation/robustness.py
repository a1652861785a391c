"""How a forecaster bears broken, missing and slower sensors, always beside its own error on clean windows.

Ten corruptions, each at three severities, are the same for everyone who is tested.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from crossfeed.errors import ForecastError
from crossfeed.evaluation.command_use import ratio
from crossfeed.evaluation.forecaster import Forecaster, masked
from crossfeed.evaluation.metrics import EvaluationSet, Scores, only_channels, score_windows
from crossfeed.progress import console
from crossfeed.training.health import PROTOCOL_SEED
from crossfeed.windows.corrupt import Draw, MaskConfig, MaskMode, validation_masks, window_draw
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch

SEVERITIES = ("light", "medium", "heavy")
# What the three severities mean for each corruption; z-units are standard deviations of the source's train rows.
CORRUPTIONS: dict[str, tuple[str, tuple[float, float, float]]] = {
    "missing points": ("share of single entries that are absent", (0.1, 0.3, 0.6)),
    "missing blocks": ("share of entries absent in runs of 2 to 12 rows", (0.1, 0.3, 0.6)),
    "missing channels": ("probability that a whole channel is absent", (0.15, 0.35, 0.6)),
    "noise": ("standard deviation of added white noise, z-units", (0.1, 0.3, 1.0)),
    "spikes": ("share of entries thrown off by 10 z-units", (0.01, 0.03, 0.1)),
    "drift": ("slow drift reached at the last row, z-units, random sign per channel", (0.5, 1.0, 2.0)),
    "bias": ("constant offset, z-units, random sign per channel", (0.5, 1.0, 2.0)),
    "stuck sensor": ("share of the window for which every third channel repeats one value", (0.25, 0.5, 1.0)),
    "unit slip": ("factor on one channel's physical values", (6.0, 60.0, 1000.0)),
    "clock jitter": ("standard deviation of the sensors' time stamps, rows", (0.25, 0.5, 1.0)),
}
SPIKE = 10.0


def corrupted(batch: WindowBatch, corruption: str, amount: float, normaliser: Normaliser, seed: int) -> WindowBatch:
    """The batch with a corrupted context; absent entries stay absent and hold 0."""
    modes: dict[str, MaskMode] = {
        "missing points": "random", "missing blocks": "block", "missing channels": "channel"
    }  # fmt: skip
    if corruption in modes:
        config = MaskConfig(mode=modes[corruption], ratio=amount, channel_drop=amount)
        m_BKC = validation_masks(batch.x_BKC, batch.m_BKC, batch.last_index_B, config, seed)
        return masked(batch, m_BKC)
    draw = window_draw(seed, batch.last_index_B)
    if corruption == "clock jitter":
        x_BKC, m_BKC = _jitter(batch.x_BKC, batch.m_BKC, amount, draw)
        return masked(replace(batch, x_BKC=x_BKC), m_BKC)
    if corruption == "unit slip":
        x_BKC = _unit_slip(batch, amount, normaliser, draw)
    else:
        x_BKC = _CHANGES[corruption](batch.x_BKC, amount, draw)
    return masked(replace(batch, x_BKC=x_BKC), batch.m_BKC)


def coarse(batch: WindowBatch, rows: int) -> WindowBatch:
    """The context as a slower logger would show it: the mean of the last `rows` rows, held until the next one.

    Blocks end at t, so the newest block is complete and nothing is held beyond what was known.
    """
    x_BKC, m_BKC = torch.zeros_like(batch.x_BKC), torch.zeros_like(batch.m_BKC)
    for stop in range(batch.x_BKC.shape[1], 0, -rows):
        block = slice(max(0, stop - rows), stop)
        count_B1C = batch.m_BKC[:, block].sum(1, keepdim=True)
        total_B1C = torch.where(batch.m_BKC[:, block], batch.x_BKC[:, block], 0.0).sum(1, keepdim=True)
        x_BKC[:, block] = total_B1C / count_B1C.clamp_min(1)
        m_BKC[:, block] = count_B1C > 0
    return replace(batch, x_BKC=x_BKC, m_BKC=m_BKC)


def _stuck(x_BKC: Tensor, amount: float, draw: Draw) -> Tensor:
    """The last share of the window repeats the value before it, in each channel with probability one third."""
    rows = x_BKC.shape[1]
    first = rows - round(amount * rows)
    chosen_B1C = draw((x_BKC.shape[0], 1, x_BKC.shape[2])) < 1.0 / 3.0
    held = x_BKC.clone()
    held[:, first:] = x_BKC[:, max(first - 1, 0), None]
    return torch.where(chosen_B1C, held, x_BKC)


def _offset(x_BKC: Tensor, draw: Draw) -> Tensor:
    """A random sign for each window and channel."""
    return _sign(draw, (x_BKC.shape[0], 1, x_BKC.shape[2]))


def _ramp(x_BKC: Tensor) -> Tensor:
    return torch.linspace(0.0, 1.0, x_BKC.shape[1], device=x_BKC.device)[:, None]


_CHANGES: dict[str, Callable[[Tensor, float, Draw], Tensor]] = {
    "noise": lambda x, amount, draw: x + amount * _normal(draw, x.shape),
    "spikes": lambda x, amount, draw: x + torch.where(draw(tuple(x.shape)) < amount, SPIKE * _sign(draw, x.shape), 0.0),
    "drift": lambda x, amount, draw: x + amount * _ramp(x) * _offset(x, draw),
    "bias": lambda x, amount, draw: x + amount * _offset(x, draw),
    "stuck sensor": _stuck,
}


def _unit_slip(batch: WindowBatch, factor: float, normaliser: Normaliser, draw: Draw) -> Tensor:
    """One channel of each window, drawn from those present, in a unit `factor` times too small."""
    lot_BC = torch.where(batch.m_BKC.any(1), draw((len(batch.x_BKC), batch.x_BKC.shape[2])), -1.0)
    chosen_BC = torch.arange(lot_BC.shape[1], device=lot_BC.device) == lot_BC.argmax(1, keepdim=True)
    slipped = normaliser.transform_sensors(normaliser.inverse_sensors(batch.x_BKC.double()) * factor)
    return torch.where(chosen_BC[:, None], slipped.to(batch.x_BKC.dtype), batch.x_BKC)


def _jitter(x_BKC: Tensor, m_BKC: Tensor, amount: float, draw: Draw) -> tuple[Tensor, Tensor]:
    """Sensors read at times off by a random part of a row, between the two rows around; never after t."""
    rows = x_BKC.shape[1]
    step_BK = torch.arange(rows, device=x_BKC.device) + amount * _normal(draw, x_BKC.shape[:2])
    step_BK = step_BK.clamp(0.0, rows - 1.0)
    before_BK = step_BK.floor().long()
    share_BK1 = (step_BK - before_BK)[..., None]
    before = before_BK[..., None].expand_as(x_BKC)
    after = (before + 1).clamp_max(rows - 1)
    both = m_BKC.gather(1, before) & m_BKC.gather(1, after)
    return x_BKC.gather(1, before) * (1.0 - share_BK1) + x_BKC.gather(1, after) * share_BK1, both


def _sign(draw: Draw, shape: tuple[int, ...] | torch.Size) -> Tensor:
    return torch.where(draw(tuple(shape)) < 0.5, -1.0, 1.0)


def _normal(draw: Draw, shape: tuple[int, ...] | torch.Size) -> Tensor:
    uniform = draw(tuple(shape)).double().clamp(2.0**-25, 1.0 - 2.0**-25)
    normal: Tensor = torch.special.ndtri(uniform)
    return normal.float()


PROBE_WINDOWS = 96
SLOWER = (2, 4, 8)
SUBSETS = (1, 2, 4, 8, 12)
DRAWS = 2  # of the channels of a subset


@dataclass(frozen=True)
class Probe:
    """A forecaster, the windows it is probed on, and how it does on them undisturbed."""

    forecaster: Forecaster
    data: EvaluationSet
    index_W: Tensor
    clean: Scores

    @classmethod
    def of(cls, forecaster: Forecaster, data: EvaluationSet, limit: int = PROBE_WINDOWS) -> "Probe":
        """Choose evenly spread windows; the same ones for everybody."""
        index_W = data.sample(limit)
        return cls(forecaster, data, index_W, score_windows(forecaster, data, index_W, title="Robustness: clean"))

    def under(self, change: Callable[[WindowBatch], WindowBatch], title: str) -> dict[str, object]:
        """One row of a table; a change that breaks the forecaster is a result too, and is named."""
        try:
            scores = score_windows(
                self.forecaster, self.data, self.index_W, lambda batch, _: change(batch), f"Robustness: {title}"
            )
        except ForecastError as error:
            console().print(f"[yellow]warning:[/] under '{title}': {error.found}")
            return {"failed": error.found}
        return _row(scores, self.clean)


def robustness(probe: Probe) -> dict[str, object]:
    """Errors under every corruption and severity, with ratios to the clean error and run-level intervals."""
    result: dict[str, object] = {"windows": len(probe.index_W), "clean": _row(probe.clean, probe.clean)}
    for corruption, (meaning, amounts) in CORRUPTIONS.items():
        rows = {}
        for severity, amount in zip(SEVERITIES, amounts, strict=True):
            change = partial(
                corrupted, corruption=corruption, amount=amount, normaliser=probe.data.normaliser, seed=PROTOCOL_SEED
            )
            rows[severity] = {"amount": amount} | probe.under(change, corruption)
        result[corruption] = {"meaning": meaning, **rows}
    return result


def slower_logging(probe: Probe) -> dict[str, object]:
    """Resampling-rate sensitivity: the same context as a logger with 2, 4 or 8 times the period would show it."""
    result: dict[str, object] = {"windows": len(probe.index_W), "1": _row(probe.clean, probe.clean)}
    return result | {str(rows): probe.under(partial(coarse, rows=rows), f"logging rate / {rows}") for rows in SLOWER}


def channel_curve(probe: Probe) -> dict[str, object]:
    """Error on the channels that stay visible as others are hidden, against the error with all of them visible.

    Kept and full view are judged on the same channels, so the ratio says what the hidden ones were worth.
    """
    full = probe.clean
    names = [name for name in full.channels if full.metrics(channel=[name])["count"]]
    generator = np.random.default_rng(PROTOCOL_SEED)
    result: dict[str, object] = {"windows": len(probe.index_W), "channels": names}
    for size in (size for size in SUBSETS if size < len(names)):
        rows = []
        for _ in range(DRAWS):
            kept = sorted(generator.choice(names, size=size, replace=False).tolist(), key=full.channels.index)
            change = only_channels(kept, full.channels)
            scores = score_windows(probe.forecaster, probe.data, probe.index_W, change, f"Channels: {size}")
            seen, whole = scores.metrics(channel=kept)["rmse"], full.metrics(channel=kept)["rmse"]
            share = seen / whole if seen is not None and whole else None
            rows.append({"kept": kept, "rmse": seen, "rmse_all_visible": whole, "ratio": share})
        result[str(size)] = rows
    return result


def _row(scores: Scores, clean: Scores) -> dict[str, object]:
    metrics = scores.metrics()
    chosen = {name: metrics[name] for name in ("rmse", "mae", "crps", "coverage90")}
    return chosen | {"rmse_ratio": ratio(scores, clean, "squared"), "crps_ratio": ratio(scores, clean, "crps")}
