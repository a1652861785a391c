"""One dial for all baselines: `base` is the size of the paper, the others shrink it for small machines."""

from typing import Literal

Size = Literal["tiny", "compact", "base"]

_WIDTH = {"tiny": 4, "compact": 2, "base": 1}
_DEPTH = {"tiny": 1 / 3, "compact": 2 / 3, "base": 1.0}
_RATE = {"tiny": 1e-3, "compact": 5e-4, "base": 3e-4}


def width(full: int, size: Size) -> int:
    """A layer width: a quarter, half or all of the paper's."""
    return full // _WIDTH[size]


def depth(full: int, size: Size) -> int:
    """A number of layers: a third, two thirds (rounded) or all of the paper's, at least one."""
    return max(1, round(full * _DEPTH[size]))


def learning_rate(size: Size) -> float:
    """The rate that goes with a width, the same for every network of a comparison."""
    return _RATE[size]
