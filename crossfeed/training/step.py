"""One training step, from window numbers to moved weights, without a word to the host.

All inputs lie in buffers of fixed shape on the device (the epoch's order, schedules, counters), all results go into
one (the trace of losses), so a step can be captured in a graph and metrics leave the device once an epoch.

B batch, S steps of an epoch, T loss terms.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from crossfeed.model.fast.acceleration import can_accelerate, dropout_seeds
from crossfeed.model.jepa.model import JepaModel
from crossfeed.model.jepa.objectives import ObjectiveConfig, Stage, Views, draw_views, losses, total
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.sensors.objective import forecast_losses
from crossfeed.model.world_model import WorldModel
from crossfeed.training.devices.acceleration import (
    CapturedStep,
    TeacherStream,
    TokenCapacity,
    autocast,
    compiled,
    measure_token_capacity,
    prepare_model,
)
from crossfeed.training.devices.distributed import Team
from crossfeed.training.order import epoch_order
from crossfeed.training.rehearsal import Rehearsal
from crossfeed.training.run_config import RunConfig
from crossfeed.training.seeds import derive, generator
from crossfeed.training.update.average import WeightAverage
from crossfeed.training.update.flat_update import FlatUpdate
from crossfeed.training.update.optimiser import build_optimiser, trained_parameters
from crossfeed.training.update.schedule import average_weights, learning_rates, momenta
from crossfeed.windows.corrupt import corrupt, generator_draw
from crossfeed.windows.machine_changes import MachineAugmentation
from crossfeed.windows.plan_changes import PlanAugmentation
from crossfeed.windows.windows import WindowBatch, WindowSet

GRADIENT = "gradient_norm"
ALONE = Team()
OTHER_DROPOUT = 7919  # between the seeds of two processes; a step moves the seed by 1, an epoch draws it anew


class TrainStep:
    """Gather, change, hide, forward, backward, clip, AdamW, teacher, average; call it once per batch of an epoch."""

    def __init__(
        self,
        model: WorldModel,
        windows: WindowSet,
        config: RunConfig,
        stage: Stage,
        steps: int,
        precision: str,
        team: Team = ALONE,
        rehearsal: Rehearsal | None = None,
    ) -> None:
        self.model, self.windows, self.config, self.stage = model, windows, config, stage
        self.steps, self.precision, self.team = steps, precision, team
        self.device = device = windows.last_W.device
        training = config.training
        planned = steps * training.stages[stage]
        self._rate_N = learning_rates(training, planned).to(device)
        self._momentum_N = momenta(training, planned).to(device)
        self._average_N = average_weights(training, planned).to(device)
        self.learning_rate = torch.zeros((), device=device)
        self.optimiser = build_optimiser(model, stage, training, self.learning_rate)
        named = trained_parameters(model, stage)
        self.parameters = list(named.values())
        self.average = WeightAverage(named) if training.average_decay else None
        self.masks = torch.Generator(device=device)
        self._others = MachineAugmentation(config.machines, model.normaliser, device)
        self._plans = PlanAugmentation(config.plans, model.schema, model.normaliser, windows)
        self._rehearsal = rehearsal
        self.names = (*config.objectives.active(stage), GRADIENT)
        self._order_SB = torch.zeros(steps, training.batch_size, dtype=torch.long, device=device)
        self._trace_ST = torch.zeros(steps, len(self.names), device=device)
        self._step_of_epoch = torch.zeros(1, dtype=torch.long, device=device)
        self._step_of_stage = torch.zeros(1, dtype=torch.long, device=device)
        self._dropout = dropout_seeds(model, device)
        self.capacity: TokenCapacity | None = None
        self.captured = False
        team.check_batch(training.batch_size)
        self._losses: Callable[..., dict[str, Tensor]] = losses if team.size == 1 else partial(losses, see=team.see)
        self._finish: Callable[[Tensor], Tensor] = self._update
        self._run: Callable[[], None] = self._advance
        self._forecast_losses = forecast_losses
        if training.acceleration != "off" and device.type == "cuda":
            if isinstance(model, JepaModel) and can_accelerate(device):
                self._accelerate(model)
            self.captured = team.size == 1 and (self.capacity is not None or isinstance(model, SensorModel))
            if self.captured:
                self._run = CapturedStep(self._advance, (self.masks,))
            if training.acceleration == "compile":
                self._forecast_losses = compiled(forecast_losses)

    def _accelerate(self, model: JepaModel) -> None:
        """Compute on present tokens with kernels."""
        from crossfeed.training.update.update_kernel import update_flat

        batch_size, clip_norm = self.config.training.batch_size, self.config.training.clip_norm
        share = batch_size // self.team.size
        self.capacity = measure_token_capacity(model, self.windows, self.config, "schema" in self.names, share)
        prepare_model(model, self.capacity, self._dropout, self.precision)
        self._finish = FlatUpdate(model, self.optimiser, clip_norm, update_flat)
        if self.team.size == 1:
            self._losses = partial(losses, see=TeacherStream())

    def begin_epoch(self, epoch: int) -> None:
        """Draw the epoch's order and reseed masks and dropout, so that every epoch can be repeated on its own."""
        seed, machine_W = self.config.training.seed, self.windows.machine_W.cpu().numpy()
        order = generator(seed, "order", self.stage, epoch)
        self._order_SB.copy_(epoch_order(machine_W, self.config.training.batch_size, self.steps, order))
        self._trace_ST.zero_()
        self._step_of_epoch.zero_()
        self._step_of_stage.fill_(epoch * self.steps)
        self.masks.manual_seed(derive(seed, "masks", self.stage, epoch))
        dropout = derive(seed, "dropout", self.stage, epoch) + self.team.rank * OTHER_DROPOUT
        torch.manual_seed(dropout)
        self._dropout.begin(dropout)
        self.model.train()

    def __call__(self) -> None:
        """The next batch of the epoch."""
        self._run()

    def _advance(self) -> None:
        batch = self.windows.batch(self._order_SB.index_select(0, self._step_of_epoch).squeeze(0))
        with autocast(self.precision, self.device):
            terms = self.terms(*self.show(batch))
        self.optimiser.zero_grad()
        torch.autograd.backward(self.total(terms))
        self.team.average(self.parameters)
        self.learning_rate.copy_(self._rate_N.index_select(0, self._step_of_stage).squeeze(0))
        norm = self._finish(self._momentum_N.index_select(0, self._step_of_stage).squeeze(0))
        if self.average is not None:
            self.average.follow(self._average_N.index_select(0, self._step_of_stage).squeeze(0))
        row_T = self.team.mean(torch.stack([*(terms[name].detach() for name in self.names[:-1]), norm]))
        self._trace_ST.index_copy_(0, self._step_of_epoch, row_T.unsqueeze(0))
        self._step_of_epoch.add_(1)
        self._step_of_stage.add_(1)
        self._dropout.advance()

    def show(self, batch: WindowBatch) -> tuple[WindowBatch, Views, Tensor]:
        """A batch as other machines might show it, the parts of it to be seen, and the gain to count errors in."""
        objectives, masks = self.config.objectives, self.config.masks
        if self._plans.active:
            batch = self._plans(batch, generator_draw(self.masks))
        if self._rehearsal is not None:
            batch = self._rehearsal(batch, generator_draw(self.masks))
        changed, gain_B1C = batch, torch.ones_like(batch.x_BKC[:, :1])
        if self.config.machines.active:
            changed, gain_B1C = self._others(batch, generator_draw(self.masks))
        if isinstance(objectives, ObjectiveConfig):
            return changed, draw_views(changed, masks, objectives.schema_keep, self.masks), gain_B1C
        m_BKC = corrupt(changed.x_BKC, batch.m_BKC, masks, self.masks)
        # Nobody can know how another machine would show a sensor that is hidden: it is judged as it was measured.
        shown_B1C = m_BKC.any(1, keepdim=True)
        future_x_BHC = torch.where(shown_B1C, changed.future_x_BHC, batch.future_x_BHC)
        gain_B1C = torch.where(shown_B1C, gain_B1C, 1.0)
        return replace(changed, future_x_BHC=future_x_BHC), Views(m_BKC, None), gain_B1C

    def terms(self, batch: WindowBatch, views: Views, gain_B1C: Tensor) -> dict[str, Tensor]:
        """The loss terms of a batch that is shown in this way."""
        objectives = self.config.objectives
        if isinstance(objectives, ObjectiveConfig):
            return self._losses(self.model, batch, views, self.stage, objectives, self.masks)
        assert isinstance(self.model, SensorModel)
        own, own_m_BKC = self.team.part(batch), self.team.part(views).m_BKC
        own_B1C = gain_B1C.chunk(self.team.size)[self.team.rank]
        terms = self._forecast_losses(self.model, own, own_m_BKC, own_B1C, objectives)
        if self.team.size == 1:
            return terms
        # Means over present targets: a process that has more of them counts for more, as in one process with all.
        share = self.team.size * own.future_m_BHC.sum() / batch.future_m_BHC.sum().clamp(min=1)
        return {name: share * term for name, term in terms.items()}

    def total(self, terms: dict[str, Tensor]) -> Tensor:
        """What is minimised: the weighted sum of the terms."""
        return total(terms, self.config.objectives.active(self.stage))

    def _update(self, momentum: Tensor) -> Tensor:
        """Clip, AdamW, teacher; gives the norm of the gradient before clipping."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.training.clip_norm)
        self.optimiser.step()
        self.model.update_target(momentum)
        return norm

    def trace(self) -> Tensor:
        """The losses of all steps of the epoch so far, on the host; the one place where it waits for the device."""
        return self._trace_ST.cpu()
