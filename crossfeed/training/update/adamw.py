"""AdamW by the library's fused kernel, without its optimiser classes: importing those costs a process some seconds."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class AdamW:
    """Decoupled weight decay in groups; the learning rate is a tensor that others may change between two steps."""

    def __init__(self, groups: Sequence[tuple[Sequence[Tensor], float]], learning_rate: Tensor) -> None:
        self.param_groups: list[dict[str, Any]] = [
            {"params": list(parameters), "weight_decay": decay, "lr": learning_rate, "betas": BETAS}
            for parameters, decay in groups
        ]
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not moved:
                continue
            states = [self._state(parameter) for parameter in moved]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1.0)
            torch._fused_adamw_(
                moved,
                [parameter.grad for parameter in moved],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        return state
