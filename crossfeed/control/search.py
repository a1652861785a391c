"""A planner over knots: iCEM (Pinneri and others, 2020), with bounds.

P candidates, N knots, 2 knobs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pydantic import Field, model_validator

from crossfeed.configuration import CheckedForm

Judge = Callable[[np.ndarray], np.ndarray]  # (P, N, 2) -> what each candidate costs, (P,)


class SearchConfig(CheckedForm):
    """How hard to look; `seconds` ends a search early with the best found so far."""

    candidates: int = Field(default=64, ge=8)
    iterations: int = Field(default=5, ge=1)
    elites: int = Field(default=8, ge=2)
    kept: float = Field(default=0.3, ge=0.0, le=1.0)  # of the elites, into the next iteration
    smoothing: float = Field(default=0.1, ge=0.0, lt=1.0)  # of the old mean and spread
    colour: float = Field(default=1.0, ge=0.0)  # 0 white; higher makes neighbouring knots move together
    spread: float = Field(default=0.35, gt=0.0)  # of the first draw, as a part of the range
    seconds: float = Field(default=2.0, gt=0.0)

    @model_validator(mode="after")
    def _enough(self) -> "SearchConfig":
        if self.elites > self.candidates:
            raise ValueError(f"{self.elites} elites of {self.candidates} candidates")
        return self


@dataclass(frozen=True)
class SearchResult:
    """The best plan and what it costs; `finished` is False where time ran out."""

    knots_N2: np.ndarray
    cost: float
    finished: bool


def search(
    judge: Judge, low_2: np.ndarray, high_2: np.ndarray, start_N2: np.ndarray, config: SearchConfig,
    draw: np.random.Generator, clock: Callable[[], float] = time.monotonic,
) -> SearchResult:  # fmt: skip
    """Look for the cheapest knots between low and high; the start itself is always among the candidates."""
    until = clock() + config.seconds
    mean, spread = start_N2.copy(), np.broadcast_to(config.spread * (high_2 - low_2), start_N2.shape).copy()
    best, cheapest, kept = start_N2.copy(), np.inf, start_N2[None]
    for iteration in range(config.iterations):
        count = max(config.candidates - len(kept), config.elites)
        noise = coloured((count, len(start_N2), 2), config.colour, draw)
        tried = np.concatenate([np.clip(mean + spread * noise, low_2, high_2), kept])
        if iteration == 0:
            tried = np.concatenate([tried, _corners(low_2, high_2, len(start_N2))])
        cost = judge(tried)
        order = np.argsort(cost, kind="stable")
        if cost[order[0]] < cheapest:
            best, cheapest = tried[order[0]].copy(), float(cost[order[0]])
        elite = tried[order[: config.elites]]
        mean = config.smoothing * mean + (1.0 - config.smoothing) * elite.mean(axis=0)
        spread = config.smoothing * spread + (1.0 - config.smoothing) * elite.std(axis=0)
        kept = elite[: max(1, round(config.kept * config.elites))]
        if clock() >= until and iteration + 1 < config.iterations:
            return SearchResult(best, cheapest, False)
    return SearchResult(best, cheapest, True)


def coloured(shape: tuple[int, int, int], colour: float, draw: np.random.Generator) -> np.ndarray:
    """Unit noise (P, N, knobs) whose power falls with frequency to this power along the knots."""
    white, knots = draw.standard_normal(shape), shape[1]
    if knots < 2 or colour == 0.0:
        return white
    spectrum = np.fft.rfft(white, axis=1)
    frequency = np.maximum(np.fft.rfftfreq(knots), 1.0 / knots)
    shaped = np.fft.irfft(spectrum * frequency[None, :, None] ** (-colour / 2.0), n=knots, axis=1)
    return np.asarray(shaped / max(float(shaped.std()), 1e-9))


def _corners(low_2: np.ndarray, high_2: np.ndarray, knots: int) -> np.ndarray:
    """All knots at one value: each end of each range, and 100 %."""
    ones = np.ones_like(low_2)
    rows = [ones, low_2, high_2, np.array([high_2[0], 1.0]), np.array([low_2[0], 1.0]), np.array([1.0, low_2[1]])]
    return np.stack([np.broadcast_to(row, (knots, 2)) for row in rows])
