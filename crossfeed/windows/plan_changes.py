"""Plans that nobody drove, done to windows: the planned feeds turned down, held or turned up, and what follows from it.

Logs say little about what a feed does. It changes where the cut changes too, slow where the cut is heavy, so a model
that reads logs alone learns to expect nothing of a slower feed. Physics knows better: without feed there is no chip,
the force of a cut goes with the feed by some three quarters, and what a spindle needs for turning alone stays. So some
windows are shown with other feeds from some planned row on, and with the efforts of the spindle that follow. What else
may follow (loads of the axes, heat) is not known, and such targets are not counted.

B windows, T planned rows, H horizons, C sensors, A commands, E efforts of spindles.
"""

from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from crossfeed.configuration import CheckedForm
from crossfeed.schema import Schema
from crossfeed.windows.draws import Draw
from crossfeed.windows.no_load import STANDING, STEADY, NoLoadEffort, driven_efforts
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet, mean_commands

CUTTING = 0.75  # exponent of the feed in the force of a cut
HELD = 0.3  # of the changed plans hold the feed, the others turn it
SLOWEST, FASTEST = 0.2, 1.3  # factors on a feed that is turned


class PlanChanges(CheckedForm):
    """How often plans are changed in training. share: of the windows whose planned feeds are changed; 0 for none."""

    share: float = Field(default=0.0, ge=0.0, le=1.0)


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
