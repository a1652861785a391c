"""One network: queries read what is present and what is planned up to their horizon, and nothing else."""

import pytest
import torch
from torch import Tensor

from crossfeed.model.interface import Rows
from crossfeed.model.sensors.commands import CommandFeatures
from crossfeed.model.sensors.network import AskedHorizons, SensorNetwork, SensorWindow
from tests.model.sensors.small import COMMANDS, CONTEXT, HORIZONS, SCHEMA, SENSORS, stirred, windows

STEP_H = torch.tensor(HORIZONS) - 1


def parts() -> tuple[SensorNetwork, CommandFeatures]:
    model = stirred()
    return model.network, model.command_features


def seen(seed: int = 0, presence: float = 0.7) -> tuple[SensorWindow, Tensor, Tensor]:
    """A window, its past commands and its planned ones."""
    batch, model = windows(seed=seed, presence=presence), stirred()
    rows = Rows((batch.x_BKC, batch.m_BKC), model.level(batch.x_BKC, batch.m_BKC))
    return SensorWindow.of(rows), batch.a_BKA, batch.future_a_BTA


def asked(*horizons: int) -> AskedHorizons:
    """Some of the trained horizons, in any order."""
    return AskedHorizons(torch.tensor([HORIZONS.index(horizon) for horizon in horizons]), torch.tensor(horizons) - 1)


@torch.no_grad()
def test_shapes_follow_the_legend() -> None:
    network, features_of = parts()
    window, past, future = seen()
    token_EBND = network.encode(window, features_of.from_zero(past))
    query_EBHCD, said = network.decode(token_EBND, window, features_of(past, future), AskedHorizons(None, STEP_H))
    assert token_EBND.shape == (1, 4, SENSORS + COMMANDS, 16)
    assert query_EBHCD.shape == (1, 4, len(HORIZONS), SENSORS, 16)
    assert said.shape == (1, 4, len(HORIZONS), SENSORS)


@torch.no_grad()
def test_tokens_of_absent_sensors_are_read_by_nobody() -> None:
    network, features_of = parts()
    window, past, future = seen()
    window.present_BC[:, 1] = False
    features, horizons = features_of(past, future), AskedHorizons(None, STEP_H)
    token_EBND = network.encode(window, features_of.from_zero(past))
    others = torch.arange(SENSORS + COMMANDS) != 1
    strange = window.features_BCE.clone()
    strange[:, 1] = 50.0
    changed = SensorWindow(strange, window.present_BC, window.centre_BC, window.last_BC)
    torch.testing.assert_close(
        network.encode(changed, features_of.from_zero(past))[:, :, others], token_EBND[:, :, others], rtol=0, atol=1e-12
    )
    other_EBND = token_EBND.clone()
    other_EBND[:, :, 1] *= -50.0
    one, two = (network.decode(token, window, features, horizons)[0] for token in (token_EBND, other_EBND))
    told = others[:SENSORS]
    torch.testing.assert_close(one[:, :, :, told], two[:, :, :, told], rtol=0, atol=1e-12)
    assert not torch.allclose(one[:, :, :, 1], two[:, :, :, 1])


@torch.no_grad()
def test_a_present_sensor_is_read_by_the_others() -> None:
    """The counterpart: a network that reads nothing at all would pass every test of blindness."""
    network, features_of = parts()
    window, past, future = seen(presence=1.0)
    strange = window.features_BCE.clone()
    strange[:, 1] += 1.0
    changed = SensorWindow(strange, window.present_BC, window.centre_BC, window.last_BC)
    features, horizons = features_of(past, future), AskedHorizons(None, STEP_H)
    one, two = (
        network.decode(network.encode(view, features_of.from_zero(past)), view, features, horizons)[1].mean
        for view in (window, changed)
    )
    assert ((one - two).abs().amax((0, 1, 2)) > 1e-6).all()


@torch.no_grad()
def test_every_command_and_every_step_up_to_the_horizon_is_read() -> None:
    network, features_of = parts()
    window, past, future = seen()
    token_EBND = network.encode(window, features_of.from_zero(past))

    def mean(planned: Tensor) -> Tensor:
        return network.decode(token_EBND, window, features_of(past, planned), AskedHorizons(None, STEP_H))[1].mean

    for command in range(COMMANDS):
        for step in range(HORIZONS[-1]):
            planned = future.clone()
            planned[:, step, command] += 1.0
            moved_H = (mean(planned) - mean(future)).abs().amax((0, 1, 3))
            assert torch.equal(moved_H > 1e-7, step <= STEP_H)


@torch.no_grad()
@pytest.mark.parametrize("horizons", [(4,), (1, 4), (4, 1, 2), (2, 2)])
def test_each_horizon_is_answered_for_itself(horizons: tuple[int, ...]) -> None:
    network, features_of = parts()
    window, past, future = seen()
    token_EBND, features = network.encode(window, features_of.from_zero(past)), features_of(past, future)
    whole = network.decode(token_EBND, window, features, AskedHorizons(None, STEP_H))[1]
    some = network.decode(token_EBND, window, features, asked(*horizons))[1]
    places = [HORIZONS.index(horizon) for horizon in horizons]
    torch.testing.assert_close(some.mean_M, whole.mean_M[:, :, places], rtol=0, atol=1e-12)
    torch.testing.assert_close(some.scale_M, whole.scale_M[:, :, places], rtol=0, atol=1e-12)


def test_every_parameter_is_trained() -> None:
    """A head missing from the loss, or an embedding nobody reads, would have no gradient."""
    network, features_of = parts()
    window, past, future = seen(presence=1.0)
    token_EBND = network.encode(window, features_of.from_zero(past))
    said = network.decode(token_EBND, window, features_of(past, future), AskedHorizons(None, STEP_H))[1]
    said.crps(torch.ones_like(said.mean)).sum().backward()
    without = [name for name, parameter in network.named_parameters() if parameter.grad is None]
    assert not without
    silent = {name for name, parameter in network.named_parameters() if not parameter.grad.any()}
    assert silent == set()


@torch.no_grad()
def test_dropout_is_for_training_only() -> None:
    network, features_of = parts()
    window, past, _ = seen()
    past = features_of.from_zero(past)
    assert torch.equal(network.encode(window, past), network.encode(window, past))
    network.train()
    torch.manual_seed(0)
    assert not torch.equal(network.encode(window, past), network.encode(window, past))


def test_the_window_has_the_length_of_the_context() -> None:
    network, _ = parts()
    assert network.sensor[0].weight.shape[-1] == 2 * CONTEXT + 3
    assert len(SCHEMA.sensors) == network.sensors().shape[1]
