"""Windows under changes of speed that nobody drove, with targets of the model that a run begins with.

A spindle slows down or stops in logs where the feeds stop too, so a run that goes on from a model of many machines
unlearns what the speed alone does. Before its first step the model is therefore asked, for some windows of the run,
what their own plan and a changed one bring. The window is then shown under the changed plan too, with targets as far
from what the model expected there as they really were from what it expected here.

Whole stops are another matter: a log that shows a machine coming to rest, and what it reads there, knows that better
than any model, and the two would contradict each other. Then only other speeds are planned.

W windows, B batch, M windows with a synthetic plan, T planned rows, H horizons, C sensors, A commands.
"""

from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor

from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import progress
from crossfeed.windows.augment import first_turned, turned
from crossfeed.windows.corrupt import Draw
from crossfeed.windows.windows import WindowBatch, WindowSet, mean_commands

SHARE = 0.1  # of a batch; twice as many know no more and cost more at home
MOST = 2048  # windows with a synthetic plan: some ten seconds of a core
AT_ONCE = 128  # are asked about
STOPPED = 0.3  # of the changed plans stop everything where logs seldom do, the others turn the speed
SLOWEST, FASTEST = 0.3, 1.2  # factors on a speed that is turned
TURNING = 1e-3  # in scales of the commands: what is less stands


@dataclass(frozen=True, slots=True)
class SyntheticPlans:
    """Windows of a set, each under one changed plan, with the targets that the model at the beginning expects there."""

    windows: WindowSet
    number_M: Tensor
    future_a_MTA: Tensor
    future_x_MHC: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, model: WorldModel, windows: WindowSet, chance: torch.Generator) -> "Self | None":
        """Ask the model as it is now; None where no speed is commanded, or no spindle ever turns."""
        device = windows.last_W.device
        zero_A = torch.from_numpy(model.normaliser.command_zero).float().to(device)
        speed_A = torch.tensor([command.quantity == "rotational speed" for command in model.schema.commands]).to(device)
        turns_N = ((windows.a_NA - zero_A).abs() > TURNING)[:, speed_A].any(1)
        number_M = _turning(windows, turns_N).cpu()
        number_M = number_M[torch.randperm(len(number_M), generator=chance)[:MOST]].to(device)
        if not len(number_M):
            return None
        stopped = STOPPED if _coming_to_rest(windows, turns_N) < SHARE * STOPPED else 0.0
        draw_3M = torch.rand(3, len(number_M), generator=chance).to(device)
        plans, targets = [], []
        was_training = model.training
        model.eval()
        with progress("Asking what other speeds would do", len(number_M)) as task:
            for number_B, draw_3B in zip(torch.split(number_M, AT_ONCE), torch.split(draw_3M, AT_ONCE, 1), strict=True):
                batch = windows.batch(number_B)
                plans.append(_changed(batch.future_a_BTA, zero_A, speed_A, stopped, draw_3B))
                targets.append(_targets(model, batch, plans[-1]))
                task.advance(len(number_B))
        model.train(was_training)
        return cls(windows, number_M, torch.cat(plans), torch.cat(targets))

    def __call__(self, batch: WindowBatch, draw: Draw) -> WindowBatch:
        """The batch with some of its windows replaced by windows under synthetic plans."""
        windows = (len(batch.x_BKC),)
        chosen_B = draw(windows) < SHARE
        synthetic = self.batch((draw(windows) * len(self.number_M)).long())
        merged = {}
        for field in fields(WindowBatch):
            mine, other = getattr(batch, field.name), getattr(synthetic, field.name)
            merged[field.name] = torch.where(chosen_B.view(-1, *[1] * (mine.dim() - 1)), other, mine)
        return WindowBatch(**merged)

    def batch(self, index_B: Tensor) -> WindowBatch:
        """Some of these windows by number, under their changed plans."""
        future_a_BTA = self.future_a_MTA.index_select(0, index_B)
        return replace(
            self.windows.batch(self.number_M.index_select(0, index_B)),
            future_a_BTA=future_a_BTA,
            mean_a_BHA=mean_commands(future_a_BTA, self.windows.horizons),
            future_x_BHC=self.future_x_MHC.index_select(0, index_B),
        )


def _turning(windows: WindowSet, turns_N: Tensor) -> Tensor:
    """The windows in whose planned rows some spindle turns, by number."""
    upto_N = turns_N.cumsum(0)
    return (upto_N[windows.last_W + windows.horizons[-1]] > upto_N[windows.last_W]).nonzero().squeeze(1)


def _coming_to_rest(windows: WindowSet, turns_N: Tensor) -> float:
    """The share of windows at whose last row a spindle turns, and which stand for the later half of their plan."""
    upto_N, last_W, rows = turns_N.cumsum(0), windows.last_W, windows.horizons[-1]
    rests_W = turns_N[last_W] & (upto_N[last_W + rows] == upto_N[last_W + rows // 2])
    return rests_W.float().mean().item()


def _changed(future_BTA: Tensor, zero_A: Tensor, speed_A: Tensor, stopped: float, draw_3B: Tensor) -> Tensor:
    """Planned commands with everything stopped in some windows, every speed turned in others, from some row on."""
    stopped_B = draw_3B[0] < stopped
    factor_B = torch.where(stopped_B, 0.0, SLOWEST + (FASTEST - SLOWEST) * draw_3B[1])
    which_B1A = speed_A | stopped_B[:, None, None]
    return turned(future_BTA, zero_A, which_B1A, factor_B, first_turned(draw_3B[2], future_BTA.shape[1]))


def _targets(model: WorldModel, batch: WindowBatch, future_BTA: Tensor) -> Tensor:
    """What would have been measured: as many spreads from what the model expects as under the plan that was driven."""
    context = model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA)
    here = model.decode(context, Plan.of(batch, model.horizons)).distribution
    there = model.decode(context, Plan.under(future_BTA, model.horizons)).distribution
    narrower_BHC = (there.standard_deviation / here.standard_deviation).clamp(max=1.0)
    x_BHC = there.mean + narrower_BHC * (batch.future_x_BHC - here.mean)
    return torch.where(batch.future_m_BHC, x_BHC, 0.0)
