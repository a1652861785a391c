"""One training step, from window numbers to moved weights, without a word to the host.

All inputs lie in buffers of fixed shape on the device (the epoch's order, schedules, counters), all results go into
one (the trace of losses), so a step can be captured in a graph and metrics leave the device once an epoch.

B batch, S steps of an epoch, T loss terms.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from crossfeed.model.acceleration import can_accelerate
from crossfeed.model.objectives import Stage, losses, total
from crossfeed.model.views import draw_views
from crossfeed.model.world_model import WorldModel
from crossfeed.training.acceleration import CapturedStep, TokenRoom, measure_room, prepare_model, shown_views
from crossfeed.training.flat_update import FlatUpdate
from crossfeed.training.optimiser import build_optimiser, trained_parameters
from crossfeed.training.precision import autocast
from crossfeed.training.run_config import RunConfig
from crossfeed.training.schedule import learning_rates, momenta
from crossfeed.training.seeds import derive
from crossfeed.windows.windows import WindowSet

GRADIENT = "gradient_norm"


class TrainStep:
    """Gather, corrupt, forward, backward, clip, AdamW, teacher; call it once per batch of a begun epoch."""

    def __init__(
        self, model: WorldModel, windows: WindowSet, config: RunConfig, stage: Stage, steps: int, precision: str
    ) -> None:
        self.model, self.windows, self.config, self.stage = model, windows, config, stage
        self.steps, self.precision = steps, precision
        self.device = device = windows.last_W.device
        training = config.training
        planned = steps * training.stages[stage]
        self._rate_N = learning_rates(training, planned).to(device)
        self._momentum_N = momenta(training, planned).to(device)
        self.learning_rate = torch.zeros((), device=device)
        self.optimiser = build_optimiser(model, stage, training, self.learning_rate)
        self.parameters = list(trained_parameters(model, stage).values())
        self.masks = torch.Generator(device=device)
        self.names = (*config.objectives.active(stage), GRADIENT)
        self._order_SB = torch.zeros(steps, training.batch_size, dtype=torch.long, device=device)
        self._trace_ST = torch.zeros(steps, len(self.names), device=device)
        self._place = torch.zeros(1, dtype=torch.long, device=device)
        self._number = torch.zeros(1, dtype=torch.long, device=device)
        self._dropout = torch.zeros(1, dtype=torch.long, device=device)
        self.room: TokenRoom | None = None
        self._losses: Callable[..., dict[str, Tensor]] = losses
        self._finish: Callable[[Tensor], Tensor] = self._update
        self._run: Callable[[], None] = self._advance
        if training.acceleration == "auto" and can_accelerate(device):
            self.room = measure_room(windows, config, two_views="schema" in self.names)
            prepare_model(model, self.room, self._dropout)
            self._losses = torch.compile(losses)
            self._finish = FlatUpdate(model, self.optimiser, training.clip_norm)
            self._run = CapturedStep(self._advance, (self.masks,))

    def begin_epoch(self, epoch: int, order_SB: Tensor) -> None:
        """Load the epoch's order and reseed masks and dropout, so that every epoch can be repeated on its own."""
        seed = self.config.training.seed
        self._order_SB.copy_(order_SB)
        self._trace_ST.zero_()
        self._place.zero_()
        self._number.fill_(epoch * self.steps)
        self.masks.manual_seed(derive(seed, "masks", self.stage, epoch))
        dropout = derive(seed, "dropout", self.stage, epoch)
        torch.manual_seed(dropout)
        self._dropout.fill_(dropout % 2**31)
        self.model.train()

    def __call__(self) -> None:
        """The next batch of the epoch."""
        self._run()

    def _advance(self) -> None:
        batch = self.windows.batch(self._order_SB.index_select(0, self._place).squeeze(0))
        objectives = self.config.objectives
        views = draw_views(batch, self.config.masks, objectives.schema_keep, self.masks)
        with autocast(self.precision, self.device):
            terms = self._losses(self.model, batch, views, self.stage, objectives, self.masks)
        self.optimiser.zero_grad()
        torch.autograd.backward(total(terms, self.stage, objectives))
        self.learning_rate.copy_(self._rate_N.index_select(0, self._number).squeeze(0))
        norm = self._finish(self._momentum_N.index_select(0, self._number).squeeze(0))
        row_T = torch.stack([*(terms[name].detach() for name in self.names[:-1]), norm])
        self._trace_ST.index_copy_(0, self._place, row_T.unsqueeze(0))
        if self.room is not None:
            shown = shown_views(views, two_views="schema" in self.names)
            rows = len(shown) * batch.x_BKC.shape[0] * batch.x_BKC.shape[1]
            self.room.watch(shown, self.model.context_encoder.row.capacity(rows))
        self._place.add_(1)
        self._number.add_(1)
        self._dropout.add_(1)

    def _update(self, momentum: Tensor) -> Tensor:
        """Clip, AdamW, teacher; gives the norm of the gradient before clipping."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.training.clip_norm)
        self.optimiser.step()
        self.model.update_target(momentum)
        return norm

    def trace(self) -> Tensor:
        """The losses of all steps of the epoch so far, on the host; the one place where it waits for the device."""
        return self._trace_ST.cpu()
