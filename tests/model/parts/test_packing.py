import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crossfeed.model.fast.acceleration import pack_tokens
from crossfeed.model.jepa.encoder import Encoder, EncoderConfig
from crossfeed.model.parts.attention import SelfAttention
from crossfeed.model.parts.blocks import BlockConfig
from crossfeed.model.parts.packing import equal_sequences, lost_tokens, mean_of_rows, pack
from tests.model import toy


def presence(rows: int, channels: int, seed: int, share: float) -> torch.Tensor:
    """Random masks, with an empty and a full row among them."""
    m_RC = torch.rand(rows, channels, generator=torch.Generator().manual_seed(seed)) < share
    m_RC[0], m_RC[-1] = False, True
    return m_RC


@given(st.integers(2, 12), st.integers(1, 9), st.integers(0, 99), st.floats(0.0, 1.0), st.integers(0, 40))
def test_every_present_token_has_its_place_and_nothing_else_counts(
    rows: int, channels: int, seed: int, share: float, spare: int
) -> None:
    m_RC = presence(rows, channels, seed, share)
    packing = pack(m_RC, int(m_RC.sum()) + spare)
    count = int(m_RC.sum())
    assert packing.token_N[:count].tolist() == m_RC.flatten().nonzero().flatten().tolist()
    assert packing.sequences.length_S[:rows].tolist() == m_RC.sum(1).tolist()
    assert int(packing.sequences.length_S.sum()) == count + spare, "the filling covers every spare place"
    mean_R1 = mean_of_rows(torch.ones(count + spare, 1), packing)
    torch.testing.assert_close(mean_R1, m_RC.any(1, keepdim=True).float())
    assert int(lost_tokens(m_RC, count + spare)) == 0


def test_tokens_beyond_the_capacity_are_counted() -> None:
    m_RC = torch.ones(4, 5, dtype=torch.bool)
    assert int(lost_tokens(m_RC, 13)) == 7
    assert int(pack(m_RC, 13).sequences.length_S.sum()) == 13


@given(st.integers(0, 99), st.floats(0.2, 1.0))
@settings(max_examples=15)
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
        steps_BKD = encoder(x_BKC, m_BKC, a_BKA)
        steps_BKD.square().sum().backward()
        found[packed] = (steps_BKD, [p.grad.clone() for p in encoder.parameters() if p.grad is not None])
    # The weights of the means over a row are float32 in one of the two.
    torch.testing.assert_close(found[True][0], found[False][0], atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found[True][1], found[False][1], atol=1e-6, rtol=1e-6)


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


def test_packing_is_switched_on_for_both_encoders() -> None:
    model = toy.model()
    pack_tokens(model, 0.8)
    assert model.context_encoder.packed
    assert model.context_encoder.row.packed
    assert model.target_encoder.encoder.row.packed
    assert (model.context_encoder.row.share, model.target_encoder.encoder.row.share) == (0.8, 1.0)
