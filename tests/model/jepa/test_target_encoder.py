"""The teacher: no gradient, the EMA formula, and a train mode it cannot enter."""

import pytest
import torch

from crossfeed.model.presets import paper
from tests.model import toy


@pytest.mark.parametrize("momentum", [0.996, torch.tensor(0.9)])
def test_ema_follows_its_formula(momentum: float | torch.Tensor) -> None:
    model = toy.model()
    with torch.no_grad():
        for parameter in model.context_encoder.parameters():
            parameter.add_(torch.randn_like(parameter))
    slow = {name: value.clone() for name, value in model.target_encoder.encoder.state_dict().items()}
    fast = model.context_encoder.state_dict()
    model.update_target(momentum)
    for name, value in model.target_encoder.encoder.state_dict().items():
        wanted = float(momentum) * slow[name].double() + (1.0 - float(momentum)) * fast[name].double()
        torch.testing.assert_close(value.double(), wanted, atol=1e-6, rtol=1e-5)


def test_the_teacher_starts_as_a_copy_that_shares_no_memory() -> None:
    model = toy.model()
    for student, teacher in zip(model.context_encoder.parameters(), model.target_encoder.encoder.parameters()):
        assert torch.equal(student, teacher)
        assert student.data_ptr() != teacher.data_ptr()
        assert not teacher.requires_grad


def test_the_target_branch_gets_no_gradient() -> None:
    model, windows = toy.model(), toy.batch()
    assert not model.encode_target(windows).requires_grad


def test_the_crossfeed_teacher_cannot_be_put_in_train_mode() -> None:
    model, windows = toy.model(), toy.batch()
    model.train()
    assert model.context_encoder.training
    assert not any(module.training for module in model.target_encoder.modules())
    assert torch.equal(model.encode_target(windows), model.encode_target(windows))


def test_the_paper_teacher_keeps_dropout_while_training() -> None:
    model, windows = toy.model(toy.method(base=paper())), toy.batch()
    model.train()
    assert not torch.equal(model.encode_target(windows), model.encode_target(windows))
    model.eval()
    assert torch.equal(model.encode_target(windows), model.encode_target(windows))


def test_target_rows_carry_their_true_offsets() -> None:
    by_horizon = toy.model().target_encoder
    by_slot = toy.model(toy.method({"model.target.positions": "slot"})).target_encoder
    assert by_horizon.position_H.tolist() == [1, 2, 4]
    assert by_slot.position_H.tolist() == [0, 1, 2]


def test_target_rows_are_encoded_jointly() -> None:
    model, windows = toy.model(), toy.batch()
    before = model.encode_target(windows)
    windows.future_x_BHC[:, 2, 0] += 1.0
    assert not torch.equal(model.encode_target(windows)[:, 0], before[:, 0])
