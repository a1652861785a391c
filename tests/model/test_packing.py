import importlib.util
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.model.acceleration import pack_tokens
from crossfeed.model.attention import SelfAttention
from crossfeed.model.blocks import BlockConfig
from crossfeed.model.dropout import STEP_APART, Dropout, hashed_dropout, random_bits
from crossfeed.model.encoder import Encoder, EncoderConfig
from crossfeed.model.packing import equal_sequences, lost_tokens, mean_of_rows, pack
from tests.model import toy


def presence(rows: int, channels: int, seed: int, share: float) -> torch.Tensor:
    """Random masks, with an empty and a full row among them."""
    m_RC = torch.rand(rows, channels, generator=torch.Generator().manual_seed(seed)) < share
    m_RC[0], m_RC[-1] = False, True
    return m_RC


@given(st.integers(2, 12), st.integers(1, 9), st.integers(0, 99), st.floats(0.0, 1.0), st.integers(0, 40))
@settings(deadline=None)
def test_every_present_token_has_its_place_and_nothing_else_counts(
    rows: int, channels: int, seed: int, share: float, spare: int
) -> None:
    m_RC = presence(rows, channels, seed, share)
    packing = pack(m_RC, int(m_RC.sum()) + spare)
    count = int(m_RC.sum())
    assert packing.token_N[:count].tolist() == m_RC.flatten().nonzero().flatten().tolist()
    assert packing.sequences.length_S[:rows].tolist() == m_RC.sum(1).tolist()
    assert int(packing.sequences.length_S.sum()) == count + spare, "the filling covers every spare place"
    torch.testing.assert_close(packing.weight_N.sum(), m_RC.any(1).sum().float())
    assert packing.weight_N[count:].eq(0).all()
    assert int(lost_tokens(m_RC, count + spare)) == 0


def test_tokens_beyond_the_capacity_are_counted() -> None:
    m_RC = torch.ones(4, 5, dtype=torch.bool)
    assert int(lost_tokens(m_RC, 13)) == 7
    assert int(pack(m_RC, 13).sequences.length_S.sum()) == 13


@given(st.integers(0, 99), st.floats(0.2, 1.0))
@settings(deadline=None, max_examples=15)
def test_a_packed_encoder_is_the_same_function_with_the_same_gradients(seed: int, share: float) -> None:
    torch.manual_seed(seed)
    encoder = Encoder(EncoderConfig(temporal_layers=1, positions=8), BlockConfig(width=8, heads=2), 5, 2).double()
    x_BKC = torch.randn(3, 4, 5, dtype=torch.float64)
    m_BKC = presence(12, 5, seed, share).view(3, 4, 5)
    a_BKA = torch.randn(3, 4, 2, dtype=torch.float64)
    encoder.eval()
    found = {}
    for packed in (False, True):
        encoder.packed = encoder.row.packed = packed
        encoder.zero_grad()
        steps_BKD = encoder(x_BKC, m_BKC, a_BKA).steps_BKD
        steps_BKD.square().sum().backward()
        found[packed] = (steps_BKD, [p.grad.clone() for p in encoder.parameters() if p.grad is not None])
    torch.testing.assert_close(found[True][0], found[False][0])
    torch.testing.assert_close(found[True][1], found[False][1])


def test_the_room_for_tokens_is_a_share_only_while_training() -> None:
    row = Encoder(EncoderConfig(), BlockConfig(width=8, heads=2), 17, 4).row
    row.share = 0.75
    assert row.train().capacity(256 * 32) == 104448
    assert row.eval().capacity(256 * 32) == 256 * 32 * 17


def test_packed_dropout_reads_the_same_tokens_as_the_padded_one() -> None:
    attention = SelfAttention(8, 2, dropout=0.5)
    x_ND = torch.randn(12, 8)
    torch.manual_seed(3)
    padded = attention(x_ND.view(3, 4, 8))
    torch.manual_seed(3)
    packed = attention(x_ND, equal_sequences(3, 4, x_ND.device))
    torch.testing.assert_close(packed.view(3, 4, 8), padded)


def test_the_mean_of_a_row_without_tokens_is_zero() -> None:
    m_RC = torch.tensor([[True, True], [False, False]])
    mean_RD = mean_of_rows(torch.ones(6, 3), pack(m_RC, 6))
    assert mean_RD.tolist() == [[1.0] * 3, [0.0] * 3]


def test_hashed_dropout_keeps_its_rate_and_its_mean_and_repeats_itself() -> None:
    x, seed = torch.ones(400, 500), torch.tensor([11])
    kept = hashed_dropout(x, 0.1, seed)
    assert (kept > 0).float().mean().item() == pytest.approx(0.9, abs=0.003)
    assert kept.mean().item() == pytest.approx(1.0, abs=0.004)
    assert torch.equal(kept, hashed_dropout(x, 0.1, seed))
    for other in (hashed_dropout(x, 0.1, seed + 1), hashed_dropout(x, 0.1, seed + STEP_APART)):
        assert ((other > 0) ^ (kept > 0)).float().mean().item() == pytest.approx(0.18, abs=0.01)


def test_hashed_bits_are_uniform_and_uncorrelated_between_neighbours() -> None:
    bits = random_bits(200_000, torch.tensor([5])).double() / 2**31
    assert bits.mean().abs() < 0.005
    assert bits.var().item() == pytest.approx(1 / 3, abs=0.005)
    for lag in (1, 2, 16, 256, 1024):
        assert (bits[lag:] * bits[:-lag]).mean().abs() < 0.005


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_without_a_seed_draws_from_the_librarys_generator(rate: float) -> None:
    x, dropout = torch.ones(700, 601), Dropout(rate)
    torch.manual_seed(1)
    first = dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)
    assert not torch.equal(dropout(x), first)
    assert (first == 0.0).float().mean().item() == pytest.approx(rate, abs=0.004)
    assert first.mean().item() == pytest.approx(1.0, abs=0.008)
    together = ((first[:, 1:] == 0.0) & (first[:, :-1] == 0.0)).float().mean().item()
    assert together == pytest.approx(rate**2, abs=0.004), "neighbours that share a draw are independent"
    assert torch.equal(dropout.eval()(x), x)


def test_the_gradient_of_dropout_passes_where_entries_were_kept() -> None:
    x = torch.randn(30, 30, requires_grad=True)
    out = Dropout(0.4)(x)
    out.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.where(out == 0.0, 0.0, 1.0 / 0.6))


def test_packing_is_switched_on_for_both_encoders() -> None:
    model = toy.model()
    pack_tokens(model, 0.8)
    assert model.context_encoder.packed
    assert model.context_encoder.row.packed
    assert model.target_encoder.encoder.row.packed
    assert (model.context_encoder.row.share, model.target_encoder.encoder.row.share) == (0.8, 1.0)


KERNELS = """
import torch
from crossfeed.model import attention, kernel_operators as operators, packing
torch.manual_seed(0)
close = lambda found, exact: torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=1e-5)
for channels, share, seed_of_masks in ((17, 0.6, 0), (17, 1.0, 1), (5, 0.3, 2), (70, 0.7, 3)):
    m = torch.rand(9, channels, generator=torch.Generator().manual_seed(seed_of_masks)) < share
    m[3], m[4] = False, True
    p = packing.pack(m, int(m.sum()) + 21)
    seed = torch.tensor([5])
    for width, heads in ((64, 4), (96, 2)):
        qkv = torch.randn(len(p.token_N), 3, width, requires_grad=True)
        exact = qkv.detach().double().requires_grad_()
        out = operators.attend_packed(qkv, p.sequences, heads, 0.0, seed)
        reference = attention.attend_packed(exact, p.sequences, heads, 0.0)
        gradient = torch.randn_like(out)
        out.backward(gradient), reference.backward(gradient.double())
        close(out, reference), close(qkv.grad, exact.grad)
    x = torch.randn(len(p.token_N), 24, requires_grad=True)
    exact = x.detach().double().requires_grad_()
    out, reference = operators.mean_of_rows(x, p), packing.mean_of_rows(exact, p)
    gradient = torch.randn_like(out)
    out.backward(gradient), reference.backward(gradient.double())
    close(out, reference), close(x.grad, exact.grad)
    dropped = lambda z, seed: operators.attend_packed(z, p.sequences, 2, 0.3, seed)
    qkv = torch.randn(len(p.token_N), 3, 32, requires_grad=True)
    out = dropped(qkv, seed)
    gradient, direction = torch.randn_like(out), torch.randn_like(qkv)
    out.backward(gradient)
    with torch.no_grad():
        change = dropped(qkv + 1e-3 * direction, seed) - dropped(qkv - 1e-3 * direction, seed)
    torch.testing.assert_close((change * gradient).sum() / 2e-3, (qkv.grad * direction).sum(), rtol=1e-2, atol=1e-2)
    assert torch.equal(out, dropped(qkv, seed)), "the same seed drops the same entries"
    assert not torch.equal(out, dropped(qkv, seed + 1))
for queries, keys in ((5, 5), (5, 16), (40, 3)):
    allowed = torch.ones(queries, keys, dtype=torch.bool).tril()
    q, kv = torch.randn(3, queries, 48, requires_grad=True), torch.randn(3, keys, 2, 48, requires_grad=True)
    wide, wide_kv = (z.detach().double().requires_grad_() for z in (q, kv))
    out = operators.attend_between(q, kv, allowed, 4, 0.0, seed)
    reference = attention._read(wide, wide_kv, allowed, 4, 0.0, None)
    gradient = torch.randn_like(out)
    out.backward(gradient), reference.backward(gradient.double())
    close(out, reference), close(q.grad, wide.grad), close(kv.grad, wide_kv.grad)
    kept = operators.attend_between(torch.zeros(3, queries, 48), torch.ones(3, keys, 2, 48), allowed, 4, 0.4, seed)
    assert abs(float(kept.mean()) - 1.0) < 0.2, "dropout keeps the mean"
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernels_match_their_float64_references_in_tritons_interpreter() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", KERNELS], check=True, env=environment, timeout=600)
