"""One row as it is born beside the machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Row:
    """In schema units: `time` is the end of its bin in source seconds, None is absent."""

    time: float
    values: Mapping[str, float | None]
    begins: bool  # nothing is known about the moment before it: a new session

    def floats(self, names: Sequence[str]) -> np.ndarray:
        """The values of these channels; NaN is absent."""
        return np.array([self.values[name] for name in names], dtype=np.float64)
