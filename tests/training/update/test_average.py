"""The average of the weights: follows slowly, stands in for them on request, and survives a resume."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from crossfeed.logs.table import Table
from crossfeed.model.model_file import read_model_file
from crossfeed.training.history import Row
from crossfeed.training.optimiser import WeightAverage, average_weights
from crossfeed.training.run import train
from tests.training.sensor_run import sensor_config


class InterruptionError(Exception):
    """Stands for anything that ends a process between two epochs."""


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()


def parameters(module: nn.Module) -> dict[str, Tensor]:
    return dict(module.named_parameters())


@torch.no_grad()
def take_a_step(module: nn.Module, chance: torch.Generator) -> None:
    for parameter in module.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=chance, dtype=parameter.dtype))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_the_average_moves_by_its_share_of_every_step(shares: list[float]) -> None:
    module, chance = network(), torch.Generator().manual_seed(1)
    average = WeightAverage(parameters(module))
    expected = {name: parameter.detach().clone() for name, parameter in parameters(module).items()}
    for share in shares:
        take_a_step(module, chance)
        average.follow(torch.tensor(share, dtype=torch.float64))
        expected = {
            name: (1.0 - share) * mean + share * parameters(module)[name].detach() for name, mean in expected.items()
        }
    for name, mean in average.tensors().items():
        torch.testing.assert_close(mean, expected[name], rtol=0, atol=1e-12)


def test_following_needs_no_values() -> None:
    """A weight that is read by the host cannot change in a captured step, and capturing it fails."""
    with FakeTensorMode():
        module = nn.Linear(3, 4)
        average = WeightAverage(parameters(module))
        average.follow(torch.ones(5).index_select(0, torch.zeros(1, dtype=torch.long)).squeeze(0))
    assert average.tensors().keys() == parameters(module).keys()


def test_training_weights_are_not_touched_and_carry_no_graph() -> None:
    module = network()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    average = WeightAverage(parameters(module))
    average.follow(torch.tensor(0.5, dtype=torch.float64))
    assert all(torch.equal(one, two) for one, two in zip(before, module.parameters(), strict=True))
    assert not any(mean.requires_grad for mean in average.tensors().values())


def test_inside_the_model_has_the_average_and_afterwards_its_own_weights() -> None:
    module = network()
    average = WeightAverage(parameters(module))
    start = {name: parameter.detach().clone() for name, parameter in parameters(module).items()}
    take_a_step(module, torch.Generator().manual_seed(0))
    own = {name: parameter.detach().clone() for name, parameter in parameters(module).items()}
    places = [parameter.data_ptr() for parameter in module.parameters()]
    with average.applied():
        assert all(torch.equal(parameters(module)[name], start[name]) for name in start)
        assert [parameter.data_ptr() for parameter in module.parameters()] == places
    assert all(torch.equal(parameters(module)[name], own[name]) for name in own)
    assert all(torch.equal(mean, start[name]) for name, mean in average.tensors().items())


def test_own_weights_come_back_after_an_error_inside() -> None:
    module = network()
    average = WeightAverage(parameters(module))
    take_a_step(module, torch.Generator().manual_seed(0))
    own = [parameter.detach().clone() for parameter in module.parameters()]
    with pytest.raises(InterruptionError), average.applied():
        raise InterruptionError
    assert all(torch.equal(one, two) for one, two in zip(own, module.parameters(), strict=True))


def test_what_is_saved_does_not_change_while_training_goes_on() -> None:
    """A state is written behind the back of the next epoch, which wrote into the tensors being saved."""
    module = network()
    average = WeightAverage(parameters(module))
    saved = average.tensors()
    before = {name: mean.clone() for name, mean in saved.items()}
    take_a_step(module, torch.Generator().manual_seed(0))
    average.follow(torch.tensor(0.5, dtype=torch.float64))
    assert all(torch.equal(saved[name], before[name]) for name in before)


def test_a_restored_average_goes_on_as_if_nothing_had_happened() -> None:
    module = network()
    average = WeightAverage(parameters(module))
    share = torch.tensor(0.3, dtype=torch.float64)
    for seed in (0, 1):
        take_a_step(module, torch.Generator().manual_seed(seed))
        average.follow(share)
    later = network(9)
    later.load_state_dict(module.state_dict())
    resumed = WeightAverage(parameters(later))
    resumed.restore(average.tensors())
    for one, other in ((module, average), (later, resumed)):
        take_a_step(one, torch.Generator().manual_seed(2))
        other.follow(share)
    found = resumed.tensors()
    assert all(torch.equal(mean, found[name]) for name, mean in average.tensors().items())


def test_shares_begin_large_and_end_at_one_minus_the_decay() -> None:
    shares = average_weights(sensor_config({"training.average_decay": 0.99}).training, 2000)
    assert shares[0].item() == pytest.approx(0.9)
    assert shares[-1].item() == pytest.approx(0.01)
    assert (shares.diff() <= 0.0).all()
    constant = torch.full((2000,), 5.0)
    mean = torch.tensor(0.0)
    for share, value in zip(shares, constant, strict=True):
        mean = torch.lerp(mean, value, share)
    assert mean.item() == pytest.approx(5.0)


def test_an_interrupted_run_ends_with_the_same_average(tmp_path: Path, table: Table) -> None:
    whole = train(table, sensor_config(), tmp_path / "whole")

    def interrupt(row: Row) -> None:
        if row["epoch"] == 1:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        train(table, sensor_config(), tmp_path / "run", on_epoch=interrupt)
    resumed = train(table, sensor_config(), tmp_path / "run", resume=True)
    one, two = (read_model_file(result.model).tensors for result in (whole, resumed))
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())
    plain = train(table, sensor_config({"training.average_decay": 0.0}), tmp_path / "plain")
    other = read_model_file(plain.model).tensors
    assert any(not torch.equal(tensor, other[name]) for name, tensor in one.items())
