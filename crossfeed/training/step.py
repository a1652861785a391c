"""One training step, from window numbers to moved weights, without a word to the host.

All inputs lie in buffers of fixed shape on the device (the epoch's order, schedules, counters), all results go into
one (the trace of losses), so a step can be captured in a graph and metrics leave the device once an epoch.

B batch, S steps of an epoch, T loss terms.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from crossfeed.model.interface import ALONE, Losses, ProcessGroup, Stage, Views
from crossfeed.model.world_model import WorldModel
from crossfeed.training.hardware import CapturedStep, autocast, compiled
from crossfeed.training.optimiser import WeightAverage, average_weights, build_optimiser, learning_rates, momenta
from crossfeed.training.run_config import RunConfig
from crossfeed.training.seeds import derive, epoch_order, generator
from crossfeed.training.synthetic_plans import SyntheticPlans
from crossfeed.windows.augment import MachineAugmentation, PlanAugmentation
from crossfeed.windows.corrupt import generator_draw
from crossfeed.windows.windows import WindowBatch, WindowSet

GRADIENT = "gradient_norm"
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
        group: ProcessGroup = ALONE,
        synthetic_plans: SyntheticPlans | None = None,
    ) -> None:
        self.model, self.windows, self.config, self.stage = model, windows, config, stage
        self.steps, self.precision, self.group = steps, precision, group
        self.device = device = windows.last_W.device
        training = config.training
        planned = steps * training.stages[stage]
        self._rate_N = learning_rates(training, planned).to(device)
        self._momentum_N = momenta(training, planned).to(device)
        self._average_N = average_weights(training, planned).to(device)
        self.learning_rate = torch.zeros((), device=device)
        fast = training.acceleration != "off" and device.type == "cuda" and group.size == 1
        self.captured, self.compiled = fast, fast and (training.acceleration == "compile" or model.worth_compiling)
        self.optimiser = build_optimiser(model, stage, training, self.learning_rate, self.captured)
        named = model.trained(stage)
        self.parameters = list(named.values())
        self.average = WeightAverage(named) if training.average_decay else None
        self.masks = torch.Generator(device=device)
        self._others = MachineAugmentation(config.machines, model.normaliser, device)
        self._plans = PlanAugmentation(config.plans, model.schema, model.normaliser, windows)
        self._synthetic_plans = synthetic_plans
        self.names = (*config.objectives.active(stage), GRADIENT)
        self._order_SB = torch.zeros(steps, training.batch_size, dtype=torch.long, device=device)
        self._trace_ST = torch.zeros(steps, len(self.names), device=device)
        self._step_of_epoch = torch.zeros(1, dtype=torch.long, device=device)
        self._step_of_stage = torch.zeros(1, dtype=torch.long, device=device)
        group.check_batch(training.batch_size)
        self._shared = group if group.size > 1 else None
        self._losses: Callable[..., Losses] = model.losses
        if self.compiled:
            self._losses = compiled(model.losses, required=training.acceleration == "compile")
        self._run: Callable[[], None] = CapturedStep(self._advance, (self.masks,)) if fast else self._advance

    def begin_epoch(self, epoch: int) -> None:
        """Draw the epoch's order and reseed masks and dropout, so that every epoch can be repeated on its own."""
        seed, machine_W = self.config.training.seed, self.windows.machine_W.cpu().numpy()
        order = generator(seed, "order", self.stage, epoch)
        self._order_SB.copy_(epoch_order(machine_W, self.config.training.batch_size, self.steps, order))
        self._trace_ST.zero_()
        self._step_of_epoch.zero_()
        self._step_of_stage.fill_(epoch * self.steps)
        self.masks.manual_seed(derive(seed, "masks", self.stage, epoch))
        torch.manual_seed(derive(seed, "dropout", self.stage, epoch) + self.group.rank * OTHER_DROPOUT)
        self.model.train()

    def __call__(self) -> None:
        """The next batch of the epoch."""
        self._run()

    def _advance(self) -> None:
        batch = self.windows.batch(self._order_SB.index_select(0, self._step_of_epoch).squeeze(0))
        with autocast(self.precision, self.device):
            losses = self.losses(*self.show(batch))
        self.optimiser.zero_grad()
        torch.autograd.backward(losses.total(self.config.objectives.active(self.stage)))
        self.group.average(self.parameters)
        self.learning_rate.copy_(self._rate_N.index_select(0, self._step_of_stage).squeeze(0))
        norm = self.update(self._momentum_N.index_select(0, self._step_of_stage).squeeze(0))
        if self.average is not None:
            self.average.follow(self._average_N.index_select(0, self._step_of_stage).squeeze(0))
        row_T = self.group.mean(torch.stack([*(losses.terms[name].detach() for name in self.names[:-1]), norm]))
        self._trace_ST.index_copy_(0, self._step_of_epoch, row_T.unsqueeze(0))
        self._step_of_epoch.add_(1)
        self._step_of_stage.add_(1)

    def show(self, batch: WindowBatch) -> tuple[WindowBatch, Views]:
        """A batch as other machines might show it, and the parts of it to be seen."""
        if self._plans.active:
            batch = self._plans(batch, generator_draw(self.masks))
        if self._synthetic_plans is not None:
            batch = self._synthetic_plans(batch, generator_draw(self.masks))
        changed, gain_B1C = batch, torch.ones_like(batch.x_BKC[:, :1])
        if self.config.machines.active:
            changed, gain_B1C = self._others(batch, generator_draw(self.masks))
        return self.model.views(batch, changed, gain_B1C, self.config.masks, self.config.objectives, self.masks)

    def losses(self, batch: WindowBatch, views: Views) -> Losses:
        """The loss terms of a batch that is shown in this way."""
        return self._losses(batch, views, self.stage, self.config.objectives, self._shared)

    def update(self, momentum: Tensor) -> Tensor:
        """Clip, AdamW, teacher; gives the norm of the gradient before clipping."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.training.clip_norm)
        self.optimiser.step()
        self.model.update_target(momentum)
        return norm

    def trace(self) -> Tensor:
        """The losses of all steps of the epoch so far, on the host; the one place where it waits for the device."""
        return self._trace_ST.cpu()
