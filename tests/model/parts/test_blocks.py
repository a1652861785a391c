"""The block: both places of the norm, and the shortcut to the last position."""

from typing import Literal

import pytest
import torch

from crossfeed.model.parts.blocks import Block, BlockConfig


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


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_mean_before_the_last_product_is_the_mean_after_it(dropout: float) -> None:
    torch.manual_seed(0)
    block = Block(BlockConfig(width=8, heads=2, dropout=dropout)).double()
    x_RCD = torch.randn(6, 5, 8, dtype=torch.float64, requires_grad=True)
    m_RC = torch.rand(6, 5) < 0.6
    m_RC[0], m_RC[1] = False, True
    weight_RC = m_RC / m_RC.sum(1, keepdim=True).clamp(min=1)
    assert block.train().commutes == (dropout == 0.0)
    assert block.eval().commutes
    found, gradients = [], []
    for one in (False, True):
        block.zero_grad()
        x_RCD.grad = None
        allowed = m_RC[:, None, None, :]
        mean_RD = (
            block.mean(x_RCD, allowed, weight_RC)
            if one
            else (weight_RC.double().unsqueeze(1) @ block(x_RCD, allowed)).squeeze(1)
        )
        mean_RD.square().sum().backward()
        found.append(mean_RD)
        gradients.append([p.grad.clone() for p in (x_RCD, *block.parameters()) if p.grad is not None])
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(gradients[1], gradients[0])
    assert bool((found[1][0] == 0.0).all()), "a row without any token stays zero"


def test_post_norm_does_not_commute() -> None:
    assert not Block(BlockConfig(width=8, heads=2, norm="post")).eval().commutes
