"""Noise that is a function of (seed, step): the same step always meets the same noise, however a run is cut up."""

import numpy as np
from numpy.typing import NDArray

from crossfeed.schema import canonical

Floats = NDArray[np.float64]

SENSORS = len(canonical().sensor_names)
# After the measurement noise of each sensor: what wanders in the process and around the machine.
CUT_SLOW, CUT_RIPPLE, HALL, MAINS = range(SENSORS, SENSORS + 4)
STREAMS = SENSORS + 4
_BLOCK = 1024  # steps drawn together; a normal draw takes a varying number of random words, a block a fixed place


def normals(seed: int, start: int, count: int) -> Floats:
    """Standard normal numbers of shape (STREAMS, count) for the steps start .. start + count - 1."""
    first, last = start // _BLOCK, (start + count - 1) // _BLOCK
    blocks = [_block(seed, number) for number in range(first, last + 1)]
    joined = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
    offset = start - first * _BLOCK
    return joined[:, offset : offset + count]


def _block(seed: int, number: int) -> Floats:
    generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, number, 0]))
    return generator.standard_normal((STREAMS, _BLOCK))
