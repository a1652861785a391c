"""Clip, AdamW and teacher in one pass over memory: weights, moments and teacher lie in one array each.

A model has some two hundred tensors, most of them small; updating them one by one leaves a GPU idle most of the time.
Here the tensors become views of flat arrays in which encoder weights come first, in the order of the teacher's.

P trained entries, E of them in the encoder.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from crossfeed.model.jepa.model import JepaModel
from crossfeed.training.update.adamw import BETAS, EPSILON, AdamW

Update = Callable[..., None]  # has the arguments of `update_flat`


class FlatUpdate:
    """Takes the place of `AdamW.step` and `WorldModel.update_target`; the optimiser's state stays readable."""

    def __init__(self, model: JepaModel, optimiser: AdamW, clip_norm: float, update: Update) -> None:
        encoder = list(model.context_encoder.parameters())
        decay = {p: group["weight_decay"] for group in optimiser.param_groups for p in group["params"]}
        self.parameters = encoder + [p for p in decay if all(p is not known for known in encoder)]
        self.clip_norm, self._learning_rate = clip_norm, optimiser.param_groups[0]["lr"]
        self._update = update
        self.weight_P = lay_flat(self.parameters)
        self.teacher_E = lay_flat(list(model.target_encoder.encoder.parameters()))
        self.gradient_P, self.first_P, self.second_P = (torch.zeros_like(self.weight_P) for _ in range(3))
        self.decay_P = torch.cat([torch.full_like(p, decay[p]).flatten() for p in self.parameters])
        self.step = torch.zeros((), device=self.weight_P.device)
        self._gradients = views(self.gradient_P, self.parameters)
        self._moved: list[int] = []
        moments = zip(views(self.first_P, self.parameters), views(self.second_P, self.parameters), strict=True)
        for parameter, (first, second) in zip(self.parameters, moments, strict=True):
            optimiser.state[parameter].update(step=self.step, exp_avg=first, exp_avg_sq=second)

    @torch.no_grad()
    def __call__(self, momentum: Tensor) -> Tensor:
        """Move weights and teacher; gives the norm of the gradient before clipping."""
        if not self._moved:
            self._leave_alone_what_no_loss_reaches()
        torch._foreach_copy_(
            [self._gradients[number] for number in self._moved], [self._gradient(p) for p in self._moved]
        )
        norm: Tensor = torch.linalg.vector_norm(self.gradient_P)
        scale = (self.clip_norm / (norm + 1e-6)).clamp(max=1.0)
        self.step.add_(1.0)
        arrays = (self.weight_P, self.gradient_P, self.first_P, self.second_P, self.decay_P, self.teacher_E)
        corrections = (1.0 - BETAS[0] ** self.step, (1.0 - BETAS[1] ** self.step).sqrt())
        self._update(*arrays, self._learning_rate, *corrections, scale, momentum)
        return norm

    def _leave_alone_what_no_loss_reaches(self) -> None:
        """A part whose objective has weight 0 gets no gradient: it is not decayed either, as in `AdamW`."""
        decays = views(self.decay_P, self.parameters)
        for number, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                decays[number].zero_()
            else:
                self._moved.append(number)

    def _gradient(self, number: int) -> Tensor:
        gradient: Tensor | None = self.parameters[number].grad
        assert gradient is not None, "the same parameters have a gradient in every step"
        return gradient


def update_flat(
    weight_P: Tensor, gradient_P: Tensor, first_P: Tensor, second_P: Tensor, decay_P: Tensor, teacher_E: Tensor,
    rate: Tensor, bias: Tensor, root_bias: Tensor, scale: Tensor, momentum: Tensor,
) -> None:  # fmt: skip
    """One AdamW step and Eq. (4), in place: the reference of `update_kernel.update_flat`."""
    gradient_P = gradient_P * scale
    moved_P = torch.lerp(first_P, gradient_P, 1.0 - BETAS[0])
    squared_P = BETAS[1] * second_P + (1.0 - BETAS[1]) * gradient_P * gradient_P
    weight = weight_P * (1.0 - rate * decay_P) - rate / bias * moved_P / (squared_P.sqrt() / root_bias + EPSILON)
    first_P.copy_(moved_P)
    second_P.copy_(squared_P)
    weight_P.copy_(weight)
    teacher_E.copy_(momentum * teacher_E + (1.0 - momentum) * weight[: len(teacher_E)])


def lay_flat(tensors: Sequence[Tensor]) -> Tensor:
    """Copy tensors into one array and make them views of it."""
    flat_P = torch.cat([tensor.detach().flatten() for tensor in tensors])
    for tensor, view in zip(tensors, views(flat_P, tensors), strict=True):
        tensor.data = view
    return flat_P


def views(flat_P: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a flat array, in the shapes of the tensors."""
    parts = torch.split(flat_P, [tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
