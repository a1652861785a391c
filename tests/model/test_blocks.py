"""The block: both places of the norm, and the shortcut to the last position."""

from typing import Literal

import pytest
import torch

from crossfeed.model.blocks import Block, BlockConfig


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_last_position_alone_is_what_the_whole_sequence_gives_there(norm: Literal["pre", "post"]) -> None:
    torch.manual_seed(0)
    block = Block(BlockConfig(width=16, heads=2, dropout=0.0, norm=norm))
    x_BLD = torch.randn(3, 7, 16)
    torch.testing.assert_close(block.last(x_BLD), block(x_BLD)[:, -1])


def test_a_post_norm_block_ends_normed_and_a_pre_norm_block_does_not() -> None:
    torch.manual_seed(0)
    x_BLD = 5.0 + 3.0 * torch.randn(3, 7, 16)
    after = {norm: Block(BlockConfig(width=16, heads=2, dropout=0.0, norm=norm))(x_BLD) for norm in ("pre", "post")}
    torch.testing.assert_close(after["post"].mean(-1), torch.zeros(3, 7), atol=1e-5, rtol=0.0)
    assert float(after["pre"].mean()) > 3.0
