"""How the fleet throws its dice: one generator for each (seed, machine, purpose), so that nothing depends on order."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

Dice = np.random.Generator
Range = tuple[float, float]
Choice = TypeVar("Choice")

_PURPOSES = ("period", "machine", "parts", "people", "habits", "physics")


def dice(seed: int, number: int, purpose: str, item: int = 0) -> Dice:
    """The generator of one purpose of one machine, and of one item where there are several."""
    return np.random.default_rng([seed, number, _PURPOSES.index(purpose), item])


def log_uniform(draw: Dice, low: float, high: float) -> float:
    """A number with an even logarithm: 1 to 10 as often as 10 to 100."""
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def uniform(draw: Dice, low: float, high: float) -> float:
    """A number from anywhere between two."""
    return float(draw.uniform(low, high))


def chance(draw: Dice, probability: float) -> bool:
    """Whether something happens."""
    return bool(draw.random() < probability)


def pick(draw: Dice, choices: Sequence[Choice]) -> Choice:
    """One of several, all alike."""
    return choices[int(draw.integers(len(choices)))]


def pick_weighted(draw: Dice, weights: Mapping[Choice, float]) -> Choice:
    """One of several by their weights."""
    names = list(weights)
    share = np.array([weights[name] for name in names])
    return names[int(draw.choice(len(names), p=share / share.sum()))]
