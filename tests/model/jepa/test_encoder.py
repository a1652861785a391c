"""The encoder reads what is present and nothing else."""

import pytest
import torch

from crossfeed.model.jepa.encoder import Encoder
from tests.model import toy


def _encoder(empty_row: str = "zero") -> Encoder:
    return toy.model(toy.method({"model.encoder.empty_row": empty_row})).context_encoder


def test_a_channel_left_out_is_the_same_as_a_channel_absent() -> None:
    encoder, windows = _encoder(), toy.batch()
    m_BKC = windows.m_BKC.clone()
    m_BKC[:, :, [1, 4]] = False
    kept = torch.tensor([0, 2, 3])
    dense = encoder.rows(windows.x_BKC, m_BKC)
    packed = encoder.rows(windows.x_BKC[..., kept], m_BKC[..., kept], kept)
    torch.testing.assert_close(packed, dense, atol=1e-5, rtol=1e-5)


def test_zero_measured_and_absent_are_different_things() -> None:
    encoder, windows = _encoder(), toy.batch(presence=1.1)
    m_BKC = windows.m_BKC.clone()
    m_BKC[:, :, 2] = False
    x_BKC = windows.x_BKC.clone()
    x_BKC[:, :, 2] = 0.0
    measured = encoder(x_BKC, windows.m_BKC, windows.a_BKA)[:, -1]
    assert not torch.allclose(measured, encoder(x_BKC, m_BKC, windows.a_BKA)[:, -1], atol=1e-3)


@pytest.mark.parametrize("empty_row", ["zero", "first_channel"])
def test_a_row_without_any_measurement_is_carried_by_command_and_time(empty_row: str) -> None:
    encoder, windows = _encoder(empty_row), toy.batch(presence=1.1)
    m_BKC = windows.m_BKC.clone()
    m_BKC[:, 3] = False
    nothing = encoder.rows(windows.x_BKC, torch.zeros_like(m_BKC))
    if empty_row == "zero":
        assert (nothing == 0.0).all()
    else:
        zero_reading = torch.zeros_like(m_BKC)
        zero_reading[..., 0] = True
        assert torch.equal(nothing, encoder.rows(torch.zeros_like(windows.x_BKC), zero_reading))
    z_BD = encoder(windows.x_BKC, m_BKC, windows.a_BKA)[:, -1]
    z_BD.sum().backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in encoder.parameters())
    assert z_BD.isfinite().all()
    assert not torch.equal(z_BD, encoder(windows.x_BKC, m_BKC, windows.a_BKA + 1.0)[:, -1])


def test_an_absent_channel_gets_no_gradient() -> None:
    encoder, windows = _encoder(), toy.batch()
    m_BKC = windows.m_BKC.clone()
    m_BKC[:, :, 2] = False
    encoder(windows.x_BKC, m_BKC, windows.a_BKA)[:, -1].square().sum().backward()
    gradient = encoder.row.channel.grad
    assert gradient is not None
    assert (gradient[2] == 0.0).all()
    assert (gradient[[0, 1, 3, 4]] != 0.0).any(1).all()


def test_positions_give_time_an_order() -> None:
    encoder, windows = _encoder(), toy.batch(presence=1.1)
    plain = encoder(windows.x_BKC, windows.m_BKC, windows.a_BKA)
    first = encoder(windows.x_BKC, windows.m_BKC, windows.a_BKA, torch.arange(8))
    later = encoder(windows.x_BKC, windows.m_BKC, windows.a_BKA, torch.arange(1, 9))
    assert torch.equal(plain, first)
    assert not torch.equal(plain[:, -1], later[:, -1])


def test_the_state_alone_is_the_state_of_the_whole_pass() -> None:
    model, windows = toy.model(toy.method({"model.encoder.temporal_layers": 3})), toy.batch()
    encoder = model.context_encoder
    rows = encoder.rows(windows.x_BKC, windows.m_BKC)
    torch.testing.assert_close(encoder.state(rows, windows.a_BKA), encoder.sequence(rows, windows.a_BKA)[:, -1])
