"""The random numbers behind sampled futures: persistent in time, mirrored in pairs, shared between plans that agree.

N samples, T rows, C sensors, A commands.
"""

import numpy as np

from crossfeed.errors import ConfigError

FEWEST = 20  # samples; with fewer there is no 5 % quantile
# A forecast that is too high now is likely too high in the next row too. Measured: with 0.9 the
# 90 % intervals of energies over 256 s held 75 % of them, with 0.95 88 % (benchmarks/rollout.md).
PERSISTENCE = 0.95
# A command that differs by this share leaves 1/e of the chance in common; below the second share it is the same.
_FORK, _SAME = 0.1, 1e-3


def standard_noise(
    samples: int,
    steps: int,
    sensors: int,
    seed: int,
    persistence: float,
    shared_T: np.ndarray | None = None,
) -> np.ndarray:
    """Standard normal numbers (N, T, C), each sensor a first-order process in time; forecasts turn them into draws.

    A longer plan begins with the draws of a shorter one. Each path has a mirrored twin, which makes means exact
    wherever the forecast is symmetric. `shared_T` is the share of each row's chance that is the same for every plan of
    the seed (1 where left out): futures fork where the plans fork, see `shared_chance`.
    """
    if samples < FEWEST:
        raise ConfigError(
            f"{samples} sampled futures were asked for.", expected=f"at least {FEWEST}, for the outer quantiles"
        )
    if not 0.0 <= persistence < 1.0:
        raise ConfigError(f"A persistence of {persistence:g} was asked for.", expected="0 to below 1")
    shape = (steps, (samples + 1) // 2, sensors)
    fresh = np.random.default_rng(seed).standard_normal(shape)
    if shared_T is not None:
        share = shared_T[:steps, None, None]
        fresh = share * fresh + np.sqrt(1.0 - share**2) * np.random.default_rng([seed, 1]).standard_normal(shape)
    noise = np.empty_like(fresh)
    noise[0] = fresh[0]
    for step in range(1, steps):
        noise[step] = persistence * noise[step - 1] + np.sqrt(1.0 - persistence**2) * fresh[step]
    return np.ascontiguousarray(np.concatenate([noise, -noise], axis=1)[:, :samples].transpose(1, 0, 2))


def shared_chance(first_TA: np.ndarray, other_TA: np.ndarray, scale_A: np.ndarray) -> np.ndarray:
    """How much of the chance a row of the other plan has in common with the same row of the first, 0 to 1.

    Under the same commands two plans meet the same chance, and it cancels in their difference. Under other commands
    the model errs in other ways, and a difference that claimed to know these errors would be too sure of itself.
    `scale_A` keeps small numbers around zero from counting as large relative changes.
    """
    rows = min(len(first_TA), len(other_TA))
    first_TA, other = first_TA[:rows], other_TA[:rows]
    size = np.maximum(np.maximum(np.abs(first_TA), np.abs(other)), 0.01 * scale_A)
    change_T = np.maximum((np.abs(first_TA - other) / size).max(axis=1) - _SAME, 0.0)
    return np.concatenate([np.exp(-change_T / _FORK), np.zeros(len(other_TA) - rows)])
