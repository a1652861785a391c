"""Attention against an independent float64 computation."""

import numpy as np
import torch

from crossfeed.model.parts.blocks import CrossAttention, SelfAttention, attend


def _reference(query: np.ndarray, key: np.ndarray, value: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    score = np.einsum("bnle,bnse->bnls", query, key) / np.sqrt(query.shape[-1])
    score = np.where(allowed, score, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    return np.einsum("bnls,bnse->bnle", weight / weight.sum(-1, keepdims=True), value)


def test_attend_agrees_with_float64_numpy() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 4, 2, 5, 8), torch.randn(4, 2, 7, 8), torch.randn(4, 2, 7, 8)
    allowed = torch.rand(4, 1, 1, 7) < 0.5
    allowed[..., 0] = True
    found = attend(query[0], key, value, allowed, 0.0)
    wanted = _reference(query[0].double().numpy(), key.double().numpy(), value.double().numpy(), allowed.numpy())
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)


def test_a_query_that_may_read_nothing_stays_finite() -> None:
    query = torch.randn(1, 1, 2, 4, requires_grad=True)
    read = attend(query, query, query, torch.zeros(1, 1, 1, 2, dtype=torch.bool), 0.0)
    read.sum().backward()
    assert read.isfinite().all()
    assert query.grad is not None
    assert query.grad.isfinite().all()


def test_a_forbidden_key_changes_nothing_not_even_a_bit() -> None:
    torch.manual_seed(0)
    layer = SelfAttention(8, 2, 0.0)
    x, other = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    allowed = torch.tensor([True, True, False, True, False])[None, None, None]
    changed = torch.where(allowed[0, 0, 0][:, None], x, other)
    assert torch.equal(layer(x, allowed)[:, [0, 1, 3]], layer(changed, allowed)[:, [0, 1, 3]])


def test_dropout_acts_in_train_mode_only() -> None:
    torch.manual_seed(0)
    layer, x = CrossAttention(8, 2, 0.5), torch.randn(2, 5, 8)
    memory = torch.randn(2, 6, 8)
    assert not torch.equal(layer(x, memory), layer(x, memory))
    layer.eval()
    assert torch.equal(layer(x, memory), layer(x, memory))
