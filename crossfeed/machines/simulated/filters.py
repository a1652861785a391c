"""First-order filters with carried state: a run cut into pieces gives the same bits as the run in one piece."""

import math

import numpy as np
from scipy.signal import lfilter

from crossfeed.machines.simulated.noise import Floats


def decay(time_step: float, time_constant: float) -> float:
    """What is left of a first-order response after one step; a time constant of zero leaves nothing."""
    return math.exp(-time_step / time_constant) if time_constant > 0 else 0.0


def lag(signal: Floats, kept: float, carry: float) -> tuple[Floats, float]:
    """A first-order low-pass: y = kept * y_before + (1 - kept) * x; returns y and the carry for the next piece."""
    return accumulate(signal, kept, 1.0 - kept, carry)


def lag_rows(signals: Floats, kept: float, carry: Floats) -> tuple[Floats, Floats]:
    """The same low-pass on every row of a (rows, steps) array."""
    filtered, after = lfilter([1.0 - kept], [1.0, -kept], signals, axis=1, zi=carry[:, None])
    return filtered, after[:, 0]


def accumulate(signal: Floats, kept: float, gain: float, carry: float) -> tuple[Floats, float]:
    """y = kept * y_before + gain * x."""
    filtered, after = lfilter([gain], [1.0, -kept], signal, zi=[carry])
    return filtered, float(after[0])


def wander(noise: Floats, time_step: float, memory: float, carry: float) -> tuple[Floats, float]:
    """Unit-variance noise that forgets with the time constant `memory`."""
    kept = decay(time_step, memory)
    return accumulate(noise, kept, float(np.sqrt(1.0 - kept * kept)), carry)
