"""The predictor: causal slots, three injections that differ, and horizons between the trained ones."""

import itertools

import pytest
import torch

from crossfeed.errors import ConfigError
from crossfeed.model.interface import Plan
from crossfeed.model.jepa.model import JepaContext, JepaModel
from tests.model import toy

INJECTIONS = ("token", "film", "cross_attention")
COMBINATIONS = [*((injection, "mean") for injection in INJECTIONS), ("cross_attention", "sequence")]


def _built(injection: str, conditioning: str, embedding: str = "value") -> JepaModel:
    names = {"injection": injection, "conditioning": conditioning, "horizon_embedding": embedding}
    return toy.model(toy.method({f"model.predictor.{name}": value for name, value in names.items()}))


def _predict(model: JepaModel, future_a: torch.Tensor, horizons: tuple[int, ...] = toy.HORIZONS) -> torch.Tensor:
    z = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    return model.predict_latents(JepaContext(z, None, None), Plan.under(future_a, horizons))


@pytest.mark.parametrize(("injection", "conditioning"), COMBINATIONS)
def test_a_slot_does_not_see_commands_after_its_horizon(injection: str, conditioning: str) -> None:
    model, future_a = _built(injection, conditioning), torch.randn(3, 4, 2)
    before = _predict(model, future_a)
    for step in range(4):
        changed = future_a.clone()
        changed[:, step] += 10.0
        same = [torch.equal(_predict(model, changed)[:, slot], before[:, slot]) for slot in range(3)]
        assert same == [horizon < step + 1 for horizon in toy.HORIZONS]


def test_sequence_conditioning_tells_apart_what_the_means_cannot() -> None:
    future_a = torch.randn(3, 4, 2)
    swapped = future_a[:, [0, 1, 3, 2]]
    by_mean, by_sequence = (_built("cross_attention", kind) for kind in ("mean", "sequence"))
    torch.testing.assert_close(_predict(by_mean, swapped), _predict(by_mean, future_a), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(_predict(by_sequence, swapped), _predict(by_sequence, future_a), atol=1e-4)


def test_the_injections_differ_as_functions() -> None:
    """In the paper's code, cross-attention was the same function as token."""
    future_a, shift = torch.randn(3, 4, 2), torch.tensor([1.0, -1.0])
    responses = {}
    for injection, conditioning in COMBINATIONS:
        model = _built(injection, conditioning)
        responses[injection, conditioning] = _predict(model, future_a + shift) - _predict(model, future_a)
    for first, second in itertools.combinations(responses.values(), 2):
        assert not torch.allclose(first, second, atol=1e-3)


def test_film_scales_and_shifts_the_state() -> None:
    predictor = _built("film", "mean").predictor
    state, command = torch.randn(2, 1, 16), torch.randn(2, 3, 32)
    wanted = state * (1.0 + command[..., :16].tanh()) + command[..., 16:]
    assert torch.equal(predictor._inject(state, command), wanted)


@pytest.mark.parametrize(("injection", "conditioning"), COMBINATIONS)
def test_horizons_between_the_trained_ones_do_not_disturb_each_other(injection: str, conditioning: str) -> None:
    model, future_a = _built(injection, conditioning), torch.randn(3, 4, 2)
    trained = _predict(model, future_a)
    every = _predict(model, future_a, (1, 2, 3, 4))
    torch.testing.assert_close(every[:, [0, 1, 3]], trained, atol=1e-5, rtol=1e-5)
    alone = _predict(model, future_a[:, :3], (3,))
    torch.testing.assert_close(alone[:, 0], every[:, 2], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(every[:, 2], every[:, 1], atol=1e-3)
    reordered = _predict(model, future_a, (4, 1))
    torch.testing.assert_close(reordered, trained[:, [2, 0]], atol=1e-5, rtol=1e-5)


def test_the_value_embedding_is_linear_in_log_h_between_its_knots() -> None:
    embedding = _built("token", "mean").predictor.horizon
    found = embedding((2, 3, 4))
    share = torch.log2(torch.tensor(1.5))
    torch.testing.assert_close(found[1], (1.0 - share) * found[0] + share * found[2])


def test_horizons_outside_the_trained_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="5 lies outside"):
        _predict(_built("token", "mean"), torch.randn(3, 8, 2), (1, 5))
    with pytest.raises(ConfigError, match="slot index"):
        _predict(_built("token", "mean", "slot"), torch.randn(3, 4, 2), (3,))
    with pytest.raises(ConfigError, match="planned for 2 steps"):
        _predict(_built("token", "mean"), torch.randn(3, 2, 2), (3,))


@pytest.mark.parametrize("embedding", ["value", "slot"])
def test_a_horizon_asked_for_alone_is_what_it_is_among_others(embedding: str) -> None:
    """Rollouts ask for one horizon at a time; models that know horizons by slot refused all but the whole row."""
    model, future_a = _built("token", "mean", embedding), torch.randn(3, 4, 2)
    together = _predict(model, future_a)
    for slot, horizon in enumerate(toy.HORIZONS):
        alone = _predict(model, future_a, (horizon,))
        torch.testing.assert_close(alone[:, 0], together[:, slot], atol=1e-6, rtol=1e-6)
