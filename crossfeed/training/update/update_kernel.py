"""`flat_update.update_flat` as one Triton kernel; imported only where Triton and an NVIDIA GPU are at hand."""

import triton
import triton.language as tl
from torch import Tensor

from crossfeed.training.update.adamw import BETAS, EPSILON

ENTRIES = 1024  # of a program


def update_flat(
    weight_P: Tensor, gradient_P: Tensor, first_P: Tensor, second_P: Tensor, decay_P: Tensor, teacher_E: Tensor,
    rate: Tensor, bias: Tensor, root_bias: Tensor, scale: Tensor, momentum: Tensor,
) -> None:  # fmt: skip
    """One AdamW step and Eq. (4), in place."""
    arrays = (weight_P, gradient_P, first_P, second_P, decay_P, teacher_E)
    grid = (triton.cdiv(len(weight_P), ENTRIES),)
    constants = {"BETA1": BETAS[0], "BETA2": BETAS[1], "EPSILON": EPSILON, "BLOCK": ENTRIES}
    _update[grid](*arrays, rate, bias, root_bias, scale, momentum, len(weight_P), len(teacher_E), **constants)


@triton.jit
def _update(
    weight_ptr, gradient_ptr, first_ptr, second_ptr, decay_ptr, teacher_ptr,
    rate_ptr, bias_ptr, root_bias_ptr, scale_ptr, momentum_ptr, entries, followed,
    BETA1: tl.constexpr, BETA2: tl.constexpr, EPSILON: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One AdamW step for every entry, and the teacher's step towards the first `followed` of them."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    exists = entry < entries
    rate, scale = tl.load(rate_ptr), tl.load(scale_ptr)
    gradient = tl.load(gradient_ptr + entry, mask=exists, other=0.0) * scale
    first = tl.load(first_ptr + entry, mask=exists, other=0.0)
    second = tl.load(second_ptr + entry, mask=exists, other=0.0)
    weight = tl.load(weight_ptr + entry, mask=exists, other=0.0)
    decay = tl.load(decay_ptr + entry, mask=exists, other=0.0)
    first += (1.0 - BETA1) * (gradient - first)
    second = BETA2 * second + (1.0 - BETA2) * gradient * gradient
    moved = first / (tl.sqrt(second) / tl.load(root_bias_ptr) + EPSILON)
    weight = weight * (1.0 - rate * decay) - rate / tl.load(bias_ptr) * moved
    tl.store(first_ptr + entry, first, mask=exists)
    tl.store(second_ptr + entry, second, mask=exists)
    tl.store(weight_ptr + entry, weight, mask=exists)
    follows = entry < followed
    momentum = tl.load(momentum_ptr)
    teacher = tl.load(teacher_ptr + entry, mask=follows, other=0.0)
    tl.store(teacher_ptr + entry, momentum * teacher + (1.0 - momentum) * weight, mask=follows)
