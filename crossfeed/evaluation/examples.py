"""A few forecasts beside what happened, in physical units, for people to look at.

W windows, K context rows, T planned rows, H horizons, C channels, A commands. The windows are chosen by their planned
commands alone, so that no example can be picked to flatter: every forecaster shows the same ones.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossfeed.evaluation.forecaster import BATCH, Forecaster
from crossfeed.evaluation.metrics import REGIMES, EvaluationSet, regimes
from crossfeed.model.distribution import Distribution

EXAMPLES = 4
QUANTILES = (0.05, 0.25, 0.75, 0.95)
# What a reader wants to see first.
ORDER = ("start-up", "steady", "stop", "idle")
_DIGITS = 6


def example_forecasts(forecaster: Forecaster, data: EvaluationSet, count: int = EXAMPLES) -> list[dict[str, Any]]:
    """One window for each regime in turn, each from another run where possible, with history, truth and forecast."""
    chosen = choose_windows(data, count)
    if not chosen:
        return []
    batch = data.windows.batch(torch.tensor([number for number, _ in chosen]).to(data.windows.last_W.device))
    with torch.no_grad():
        forecast = forecaster.predict(batch)
    location, scale = (
        torch.from_numpy(np.array(values)) for values in (data.normaliser.sensor_location, data.normaliser.sensor_scale)
    )
    physical = forecast.rescaled(location, scale)
    return [_example(data, physical[row], number, regime) for row, (number, regime) in enumerate(chosen)]


def choose_windows(data: EvaluationSet, count: int) -> list[tuple[int, str]]:
    """Window numbers with their regimes: changes a third into the plan, elsewhere a plan of ordinary liveliness."""
    regime_W, merit_W = _merits(data)
    run_W = data.run_W.numpy()
    uses = np.zeros(len(data.runs), dtype=int)
    free_W = np.ones(len(regime_W), dtype=bool)
    chosen: list[tuple[int, str]] = []
    while len(chosen) < min(count, len(regime_W)):
        for regime in ORDER:
            mine = np.flatnonzero(free_W & (regime_W == REGIMES.index(regime)))
            if not len(mine) or len(chosen) == count:
                continue
            # Runs shown least come first, then the merit, then the earlier window.
            best = int(mine[np.lexsort((mine, -merit_W[mine], uses[run_W[mine]]))[0]])
            chosen.append((best, regime))
            uses[run_W[best]] += 1
            free_W[best] = False
    return chosen


def _merits(data: EvaluationSet) -> tuple[np.ndarray, np.ndarray]:
    """The regime of each window at its longest horizon, and how well its plan shows that regime."""
    windows, steps = data.windows, data.windows.horizons[-1]
    every = tuple(range(1, steps + 1))
    found, merits = [], []
    for part in torch.split(torch.arange(len(windows)), BATCH):
        batch = windows.batch(part.to(windows.last_W.device))
        plan_BSA = torch.cat([batch.a_BKA[:, -1:], batch.future_a_BTA], 1)
        regime_BT = regimes(batch.a_BKA[:, -1], batch.future_a_BTA, every, data.schema, data.normaliser).cpu()
        last_B = regime_BT[:, -1]
        change_B = (regime_BT == last_B[:, None]).double().argmax(1)
        moving = (last_B == REGIMES.index("start-up")) | (last_B == REGIMES.index("stop"))
        liveliness_B = plan_BSA.diff(dim=1).abs().sum((1, 2)).double().cpu()
        found.append(last_B)
        merits.append(torch.where(moving, -(change_B - steps / 3.0).abs(), liveliness_B))
    regime_W, merit_W = torch.cat(found).numpy(), torch.cat(merits).numpy()
    for regime in ("steady", "idle"):
        mine = regime_W == REGIMES.index(regime)
        if mine.any():
            merit_W[mine] = -np.abs(merit_W[mine] - np.median(merit_W[mine]))
    return regime_W, merit_W


def _example(data: EvaluationSet, forecast: Distribution, number: int, regime: str) -> dict[str, Any]:
    """One window (H, C) with its history and what really followed."""
    windows, schema = data.windows, data.schema
    last, steps = int(windows.last_W[number]), windows.horizons[-1]
    rows = slice(last - windows.context + 1, last + steps + 1)
    location, scale = data.normaliser.sensor_location, data.normaliser.sensor_scale
    present_NC = windows.m_NC[rows].cpu().numpy()
    values_NC = windows.x_NC[rows].cpu().double().numpy() * scale + location
    values_NC = np.where(present_NC, values_NC, np.nan)
    commands_NA = data.normaliser.inverse_commands(windows.a_NA[rows].cpu().double().numpy())
    levels = QUANTILES if forecast.has_intervals else ()
    median_HC, *edges = forecast.quantiles((0.5, *levels))
    context, mean_HC = windows.context, forecast.mean
    channels = {}
    for position, channel in enumerate(schema.sensors):
        if not present_NC[:, position].any():
            continue
        channels[channel.name] = {
            "unit": channel.unit,
            "history": _rounded(values_NC[:context, position]),
            "truth": _rounded(values_NC[context:, position]),
            "mean": _rounded(mean_HC[:, position]),
            "median": _rounded(median_HC[:, position]),
            "quantiles": {
                f"{level:g}": _rounded(edge_HC[:, position]) for level, edge_HC in zip(levels, edges, strict=True)
            },
        }
    return {
        "regime": regime,
        "run": data.runs[int(data.run_W[number])],
        "window": number,
        "steps": {
            "history": list(range(1 - context, 1)),
            "truth": list(range(1, steps + 1)),
            "forecast": list(windows.horizons),
        },
        "channels": channels,
        "commands": {
            command.name: {
                "unit": command.unit,
                "before": _rounded(commands_NA[:context, position]),
                "after": _rounded(commands_NA[context:, position]),
            }
            for position, command in enumerate(schema.commands)
        },
    }


def _rounded(values: np.ndarray | Tensor) -> list[float | None]:
    """Six digits that matter; what is absent or infinite becomes null."""
    return [float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None for value in values.tolist()]
