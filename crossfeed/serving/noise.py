"""The random numbers behind sampled futures: persistent in time, mirrored in pairs, the same for every plan.

N samples, T rows, C sensors.
"""

import numpy as np

from crossfeed.errors import ConfigError

FEWEST = 20  # samples; with fewer there is no 5 % quantile
# A forecast that is too high now is likely too high in the next row too. Measured by benchmarks/rollout.py.
PERSISTENCE = 0.8


def standard_noise(
    samples: int, steps: int, degrees_of_freedom_C: np.ndarray | None, sensors: int, seed: int, persistence: float
) -> np.ndarray:
    """Draws (N, T, C) of the standard member of the model's family, each sensor a first-order process in time.

    A longer plan begins with the draws of a shorter one, so that plans compared under one seed differ by their
    commands alone. Each path has a mirrored twin, which makes means exact wherever the forecast is symmetric.
    """
    if samples < FEWEST:
        raise ConfigError(
            f"{samples} sampled futures were asked for.", expected=f"at least {FEWEST}, for the outer quantiles"
        )
    if not 0.0 <= persistence < 1.0:
        raise ConfigError(f"A persistence of {persistence:g} was asked for.", expected="0 to below 1")
    pairs = (samples + 1) // 2
    fresh = np.random.default_rng(seed).standard_normal((steps, pairs, sensors))
    noise = np.empty_like(fresh)
    noise[0] = fresh[0]
    for step in range(1, steps):
        noise[step] = persistence * noise[step - 1] + np.sqrt(1.0 - persistence**2) * fresh[step]
    if degrees_of_freedom_C is not None:
        from scipy.special import ndtr, stdtrit

        noise = stdtrit(degrees_of_freedom_C, ndtr(noise))
    return np.ascontiguousarray(np.concatenate([noise, -noise], axis=1)[:, :samples].transpose(1, 0, 2))
