"""The cases of `test_fused.py` by kernels, and the update of the weights: a script for Triton's interpreter."""

import torch

from crossfeed.model.fast import row_operators
from crossfeed.training.update.adamw import AdamW
from crossfeed.training.update.flat_update import FlatUpdate, update_flat
from crossfeed.training.update.optimiser import trained_parameters
from crossfeed.training.update.update_kernel import update_flat as update_kernel
from tests.model import toy
from tests.model.fast.test_fused import CASES, check


def check_update() -> None:
    """Some steps of the update by its kernel and by its reference."""
    trails = []
    for update in (update_flat, update_kernel):
        model = toy.model()
        named = trained_parameters(model, "finetune")
        optimiser = AdamW([(list(named.values()), 0.01)], torch.tensor(0.1))
        flat = FlatUpdate(model, optimiser, 1.0, update)
        draws = torch.Generator().manual_seed(0)
        for _ in range(3):
            for parameter in named.values():
                parameter.grad = torch.randn(parameter.shape, generator=draws)
            flat(torch.tensor(0.9))
        trails.append(torch.cat([flat.weight_P, flat.first_P, flat.second_P, flat.teacher_E]))
    torch.testing.assert_close(trails[1], trails[0], rtol=1e-5, atol=1e-7)


if __name__ == "__main__":
    for case in CASES:
        check(case, row_operators)
    check_update()
