"""Plans that nobody drove and machines that nobody has, done to windows.

Plans: the planned feeds turned down, held or turned up, and what follows from it. Machines: other gains, levels, noise.

Logs say little about what a feed does. It changes where the cut changes too, slow where the cut is heavy, so a model
that reads logs alone learns to expect nothing of a slower feed. Physics knows better: without feed there is no chip,
the force of a cut goes with the feed by some three quarters, and what a spindle needs for turning alone stays. So some
windows are shown with other feeds from some planned row on, and with the efforts of the spindle that follow. What else
may follow (loads of the axes, heat) is not known, and such targets are not counted.

What a spindle needs for turning alone is read from its own logs: about the least it ever needed at that speed; the rest
of its effort is cutting. A spindle that cuts without a pause hides what it needs for turning; then less is taken for
cutting than is.

B windows, T planned rows, H horizons, C sensors, A commands, N rows, E efforts of spindles, V bins of speed.
"""

import math
from dataclasses import replace

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm
from crossfeed.schema import Schema
from crossfeed.windows.corrupt import Draw
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet, mean_commands

STANDING = 1e-3  # in scales of the commands
STEADY = 4  # rows with one speed, after which a spindle no longer accelerates
BINS = 16  # of speed
LEAST = 0.1  # quantile of an effort that counts as turning alone
FEWEST = 20  # rows of a bin that tell it
CUTTING = 0.75  # exponent of the feed in the force of a cut
HELD = 0.3  # of the changed plans hold the feed, the others turn it
SLOWEST, FASTEST = 0.2, 1.3  # factors on a feed that is turned
REACH = 4.0  # a gain acts from the physical zero where that lies within so many standard deviations of the mean


class PlanChanges(CheckedForm):
    """How often plans are changed in training. share: of the windows whose planned feeds are changed; 0 for none."""

    share: float = Field(default=0.0, ge=0.0, le=1.0)


class NoLoadEffort:
    """Efforts of spindles (`sensor_E`, driven by `command_E`) and by speed how much of them is turning alone."""

    def __init__(self, schema: Schema, normaliser: Normaliser, windows: WindowSet) -> None:
        device = windows.last_W.device
        drives = driven_efforts(schema)
        sensors, commands = list(drives), list(drives.values())
        self.sensor_E, self.command_E = (torch.tensor(part, device=device) for part in (sensors, commands))
        self.zero_E = torch.from_numpy(normaliser.sensor_zero[sensors]).float().to(device)
        self.standing_E = torch.from_numpy(normaliser.command_zero[commands]).float().to(device)
        effort_NE = (windows.x_NC[:, self.sensor_E] - self.zero_E).abs()
        effort_NE[~windows.m_NC[:, self.sensor_E]] = torch.nan
        speed_NE = self.speed(windows.a_NA)
        tables = [_least(*columns) for columns in zip(speed_NE.T.cpu().numpy(), effort_NE.T.cpu().numpy(), strict=True)]
        self._tables = [tuple(torch.from_numpy(part).float().to(device) for part in table) for table in tables]

    def speed(self, a_A: Tensor) -> Tensor:
        """How fast the spindle of each effort is told to turn (..., E), whichever way round."""
        return (a_A[..., self.command_E] - self.standing_E).abs()

    def __call__(self, speed_E: Tensor) -> Tensor:
        """What turning at these speeds (..., E) needs, from zero; infinite where nothing was logged that tells it."""
        needs = [
            least_V[torch.bucketize(speed.contiguous(), edge_V)]
            for speed, (edge_V, least_V) in zip(speed_E.unbind(-1), self._tables, strict=True)
        ]
        return torch.stack(needs, -1)


def _least(speed_N: np.ndarray, effort_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper edges of the bins of speed, and for each bin, and what is faster than all, the effort of turning alone."""
    steady_N = speed_N > STANDING
    for rows in range(1, STEADY):
        steady_N[rows:] &= speed_N[rows:] == speed_N[:-rows]
    steady_N[: STEADY - 1] = False
    steady_N &= np.isfinite(effort_N)
    if not steady_N.any():
        return np.zeros(0), np.array([np.inf])
    speed_N, effort_N = speed_N[steady_N], effort_N[steady_N]
    edge_V = np.unique(np.quantile(speed_N, np.linspace(0.0, 1.0, BINS + 1), method="inverted_cdf"))
    bin_N = np.searchsorted(edge_V, speed_N)
    least = [
        np.quantile(effort_N[bin_N == number], LEAST) if (bin_N == number).sum() >= FEWEST else np.inf
        for number in range(len(edge_V))
    ]
    return edge_V, np.array([*least, np.inf])


def driven_efforts(schema: Schema) -> dict[int, int]:
    """For every effort of a spindle the commanded speed that drives it: the one whose name shares most words with it.

    Without a commanded speed nothing is known of any of them.
    """
    speeds = [number for number, command in enumerate(schema.commands) if command.quantity == "rotational speed"]
    efforts = [number for number, sensor in enumerate(schema.sensors) if sensor.feels_the_cut] if speeds else []

    def shared(effort: int, speed: int) -> int:
        return len(set(schema.sensors[effort].words) & set(schema.commands[speed].words))

    return {effort: max(speeds, key=lambda speed: shared(effort, speed)) for effort in efforts}


class PlanAugmentation:
    """Shows windows under plans that nobody drove; a schema without feeds or without a spindle's effort has none."""

    def __init__(self, config: PlanChanges, schema: Schema, normaliser: Normaliser, windows: WindowSet) -> None:
        self.config = config
        device = windows.last_W.device
        feeds = [number for number, command in enumerate(schema.commands) if command.quantity == "feed"]
        self.active = bool(config.share > 0.0 and feeds and driven_efforts(schema))
        if not self.active:
            return
        self.no_load = NoLoadEffort(schema, normaliser, windows)
        self._feed_A = torch.zeros(len(schema.commands), dtype=torch.bool, device=device)
        self._feed_A[feeds] = True
        self._zero_A = torch.from_numpy(normaliser.command_zero).float().to(device)
        self._horizons = windows.horizons
        self._horizon_H = torch.tensor(windows.horizons, device=device)
        self._unfelt_C = torch.ones(len(schema.sensors), dtype=torch.bool, device=device)
        self._unfelt_C[self.no_load.sensor_E] = False

    def __call__(self, batch: WindowBatch, draw: Draw) -> WindowBatch:
        """Some of the windows under other feeds; the others, and all rows before the change, as they were."""
        factor_B, first_B = self._drawn(batch, draw)
        return self.under(batch, factor_B, first_B)

    def under(self, batch: WindowBatch, factor_B: Tensor, first_B: Tensor) -> WindowBatch:
        """The windows with their feeds times a factor from some planned row on, counted from 1."""
        other_B1 = (factor_B != 1.0).unsqueeze(1)
        future_a_BTA = turned(batch.future_a_BTA, self._zero_A, self._feed_A, factor_B, first_B)
        changed_BH1 = (other_B1 & (self._horizon_H >= first_B.unsqueeze(1))).unsqueeze(-1)
        effort_BHE, told_BHE = self._efforts(batch, factor_B)
        sensor_E = self.no_load.sensor_E
        x_BHE, m_BHE = batch.future_x_BHC[..., sensor_E], batch.future_m_BHC[..., sensor_E]
        x_BHC = batch.future_x_BHC.index_copy(2, sensor_E, torch.where(changed_BH1, effort_BHE, x_BHE))
        m_BHC = batch.future_m_BHC & ~(changed_BH1 & self._unfelt_C)
        m_BHC = m_BHC.index_copy(2, sensor_E, m_BHE & (told_BHE | ~changed_BH1))
        return replace(
            batch,
            future_a_BTA=future_a_BTA,
            mean_a_BHA=mean_commands(future_a_BTA, self._horizons),
            future_x_BHC=torch.where(m_BHC, x_BHC, 0.0),
            future_m_BHC=m_BHC,
        )

    def _efforts(self, batch: WindowBatch, factor_B: Tensor) -> tuple[Tensor, Tensor]:
        """What the spindles need under the changed feeds, and whether it can be told.

        It cannot while they accelerate, nor at a speed whose turning alone was never logged; without speed there is no
        cut.
        """
        no_load = self.no_load
        away_BHE = batch.future_x_BHC[..., no_load.sensor_E] - no_load.zero_E
        past_BSA = batch.a_BKA[:, 1 - STEADY :]
        speed_BSE = no_load.speed(torch.cat([past_BSA, batch.future_a_BTA], 1))
        here_H = self._horizon_H - 1 + past_BSA.shape[1]
        speed_BHE = speed_BSE.index_select(1, here_H)
        before = [speed_BSE.index_select(1, (here_H - rows).clamp(min=0)) for rows in range(1, STEADY)]
        steady_BHE = torch.stack([speed_BHE == earlier for earlier in before]).all(0)
        needed_BHE = no_load(speed_BHE)
        told_BHE = steady_BHE & (needed_BHE.isfinite() | (speed_BHE <= STANDING))
        alone_BHE = torch.minimum(needed_BHE, away_BHE.abs())
        cutting_BHE = (away_BHE.abs() - alone_BHE) * factor_B[:, None, None] ** CUTTING
        return no_load.zero_E + away_BHE.sign() * (alone_BHE + cutting_BHE), told_BHE

    def _drawn(self, batch: WindowBatch, draw: Draw) -> tuple[Tensor, Tensor]:
        """For each window the factor on its feeds, 1 for most, and the planned row from which on it holds."""
        windows = (len(batch.future_a_BTA),)
        chosen_B, held_B = draw(windows) < self.config.share, draw(windows) < HELD
        turned_B = SLOWEST + (FASTEST - SLOWEST) * draw(windows)
        factor_B = torch.where(chosen_B, torch.where(held_B, 0.0, turned_B), 1.0)
        return factor_B, first_turned(draw(windows), self._horizons[-1])


def turned(future_a_BTA: Tensor, zero_A: Tensor, which_A: Tensor, factor_B: Tensor, first_B: Tensor) -> Tensor:
    """Plans in which some commands, (A) or (B, 1, A), are seen from standing times a factor from a row on."""
    row_T = torch.arange(1, future_a_BTA.shape[1] + 1, device=future_a_BTA.device)
    later_BT = (factor_B != 1.0).unsqueeze(1) & (row_T >= first_B.unsqueeze(1))
    other_BTA = zero_A + factor_B[:, None, None] * (future_a_BTA - zero_A)
    return torch.where(later_BT.unsqueeze(-1) & which_A, other_BTA, future_a_BTA)


def first_turned(draw_B: Tensor, rows: int) -> Tensor:
    """The planned row, counted from 1, with which a change begins: half begin with the plan, as a person asks who has
    just turned the knob.
    """
    return 1 + ((2.0 * draw_B - 1.0).clamp(min=0.0) * rows).long()


class MachineChanges(CheckedForm):
    """How strongly sensors are changed, each window and sensor by chance; zeros change nothing.

    gain: standard deviation of the logarithm of a factor. level: standard deviation of a constant, in z-units.
    noise: largest standard deviation of what is added to every row of the context, in z-units. commands: standard
    deviation of the logarithm of a factor on each command, seen from standing still.
    """

    gain: float = Field(default=0.0, ge=0.0, le=2.0)
    level: float = Field(default=0.0, ge=0.0, le=10.0)
    noise: float = Field(default=0.0, ge=0.0, le=1.0)
    commands: float = Field(default=0.0, ge=0.0, le=2.0)

    @property
    def active(self) -> bool:
        """Whether anything is changed at all."""
        return any((self.gain, self.level, self.noise, self.commands))


class MachineAugmentation:
    """Shows windows as other machines might; the physical zeros come from the normaliser."""

    def __init__(self, config: MachineChanges, normaliser: Normaliser, device: torch.device | str) -> None:
        self.config = config
        self._zero_C, self._reached_C = (torch.from_numpy(part).to(device) for part in normaliser.zero_within(REACH))
        self._zero_A = torch.from_numpy(normaliser.command_zero.astype(np.float32)).to(device)

    def __call__(self, batch: WindowBatch, draw: Draw) -> tuple[WindowBatch, Tensor]:
        """The changed windows, context and targets alike, and the gain (B, 1, C) in which errors are to be counted."""
        x_BKC, m_BKC, config = batch.x_BKC, batch.m_BKC, self.config
        shape = (len(x_BKC), 1, x_BKC.shape[2])
        gain_B1C = torch.exp(config.gain * _normal(draw, shape))
        mean_B1C = torch.where(m_BKC, x_BKC, 0.0).sum(1, keepdim=True) / m_BKC.sum(1, keepdim=True).clamp(min=1)
        from_B1C = torch.where(self._reached_C, self._zero_C, mean_B1C)
        shift_B1C = from_B1C * (1.0 - gain_B1C) + config.level * _normal(draw, shape)
        noise_BKC = config.noise * gain_B1C * draw(shape).square() * _normal(draw, tuple(x_BKC.shape))
        changed = replace(
            batch,
            x_BKC=torch.where(m_BKC, gain_B1C * x_BKC + shift_B1C + noise_BKC, 0.0),
            future_x_BHC=torch.where(batch.future_m_BHC, gain_B1C * batch.future_x_BHC + shift_B1C, 0.0),
        )
        return (self._otherwise_driven(changed, draw) if config.commands else changed), gain_B1C

    def _otherwise_driven(self, batch: WindowBatch, draw: Draw) -> WindowBatch:
        """The windows of a machine whose commands have other sizes for the same effect."""
        factor_B1A = torch.exp(self.config.commands * _normal(draw, (len(batch.a_BKA), 1, batch.a_BKA.shape[2])))

        def scaled(a_BSA: Tensor) -> Tensor:
            return self._zero_A + factor_B1A * (a_BSA - self._zero_A)

        return replace(
            batch,
            a_BKA=scaled(batch.a_BKA),
            mean_a_BHA=scaled(batch.mean_a_BHA),
            future_a_BTA=scaled(batch.future_a_BTA),
        )


def _normal(draw: Draw, shape: tuple[int, ...]) -> Tensor:
    """Standard normal numbers from uniform ones, two of which make one."""
    radius = torch.sqrt(-2.0 * torch.log1p(-draw(shape)))
    return radius * torch.cos(2.0 * math.pi * draw(shape))
