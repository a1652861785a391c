"""Every neural baseline: shapes, gradients, the command switch, absent channels."""

from dataclasses import replace

import pytest
import torch

from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.network import Features, InstanceNormalised, Network, NetworkInputs, Shape
from crossfeed.evaluation.baselines.networks import FLAGGED, RECIPES, network_forecaster
from crossfeed.model.distribution import Gaussian, Point
from crossfeed.windows.windows import WindowBatch, WindowSet

NAMES = sorted(RECIPES)


def network(name: str, shape: Shape, *options: str) -> Network:
    recipe = RECIPES[name]
    inputs = NetworkInputs(presence=recipe.absent == FLAGGED, plan="blind" not in options)
    torch.manual_seed(0)
    built = recipe.build(Features(shape, inputs), "tiny", "gaussian" in options)
    return InstanceNormalised(built) if recipe.revin == "default" or "revin" in options else built


def some(windows: WindowSet, count: int = 12) -> WindowBatch:
    return windows.batch(torch.arange(count) * 3)


def other_plan(batch: WindowBatch) -> WindowBatch:
    order = torch.randperm(len(batch.x_BKC), generator=torch.Generator().manual_seed(3))
    return replace(batch, future_a_BTA=batch.future_a_BTA[order] + 1.0, mean_a_BHA=batch.mean_a_BHA[order] + 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_finite_values(name: str, parts: dict[str, WindowSet], shape: Shape) -> None:
    batch = some(parts["train"])
    said = network(name, shape).eval()(batch)
    assert said.mean.shape == batch.future_x_BHC.shape
    assert said.mean.isfinite().all()
    assert isinstance(said, Point) == RECIPES[name].point
    assert said.standard_deviation.shape == said.mean.shape
    assert said.standard_deviation.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", [(), ("blind",)])
def test_a_gradient_reaches_every_parameter(
    name: str, options: tuple[str, ...], parts: dict[str, WindowSet], shape: Shape
) -> None:
    model, generator = network(name, shape, *options), torch.Generator().manual_seed(0)
    batch = some(parts["train"])
    loss = model.objective(batch, generator)
    if model.has_pretext:
        loss = loss + model.pretext(batch, generator)
    loss.backward()
    untouched = [
        label
        for label, p in model.named_parameters()
        if p.grad is None or not (p.grad.isfinite().all() and p.grad.any())
    ]
    assert untouched == []


@pytest.mark.parametrize("name", NAMES)
def test_a_blind_network_does_not_change_by_a_bit_under_another_plan(
    name: str, parts: dict[str, WindowSet], shape: Shape
) -> None:
    batch = some(parts["train"])
    blind, seeing = network(name, shape, "blind").eval(), network(name, shape).eval()
    before, after = blind(batch), blind(other_plan(batch))
    assert torch.equal(before.mean, after.mean)
    assert torch.equal(before.standard_deviation, after.standard_deviation)
    assert not torch.equal(seeing(batch).mean, seeing(other_plan(batch)).mean)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("tide", "itransformer")])
def test_a_horizon_does_not_see_commands_that_come_after_it(
    name: str, parts: dict[str, WindowSet], shape: Shape
) -> None:
    batch = some(parts["train"])
    later_BTA, mean_BHA = batch.future_a_BTA.clone(), batch.mean_a_BHA.clone()
    later_BTA[:, 2:] += 1.0
    mean_BHA[:, 2] = later_BTA.mean(1)
    model = network(name, shape).eval()
    before, after = model(batch).mean, model(replace(batch, future_a_BTA=later_BTA, mean_a_BHA=mean_BHA)).mean
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.equal(before[:, 2], after[:, 2])


@pytest.mark.parametrize("name", NAMES)
def test_what_lies_under_an_absent_entry_is_never_read(name: str, gappy: WindowSet, shape: Shape) -> None:
    batch = some(gappy)
    assert not batch.m_BKC.all()
    rubbish = replace(batch, x_BKC=torch.where(batch.m_BKC, batch.x_BKC, 1e6))
    model = network(name, shape).eval()
    assert torch.equal(model(batch).mean, model(rubbish).mean)
    assert model(batch).mean.isfinite().all()


@pytest.mark.parametrize("name", [name for name in NAMES if RECIPES[name].revin in ("default", "built in")])
def test_revin_carries_a_level_shift_through(name: str, parts: dict[str, WindowSet], shape: Shape) -> None:
    batch = some(parts["train"])
    model = network(name, shape).eval()
    shifted = model(replace(batch, x_BKC=batch.x_BKC + 5.0)).mean
    assert torch.allclose(shifted, model(batch).mean + 5.0, atol=1e-3)


@pytest.mark.parametrize("name", ["patchtst", "itransformer"])
def test_the_gaussian_option_trains_a_spread(name: str, parts: dict[str, WindowSet], shape: Shape) -> None:
    estimate = network(name, shape, "gaussian").eval()(some(parts["train"]))
    assert isinstance(estimate, Gaussian)
    assert estimate.scale.shape == estimate.mean.shape


@pytest.mark.parametrize(
    "spec",
    [
        ("gru", "gaussian"),
        ("patchtst", "revin"),
        ("rssm", "revin"),
        ("tide", "revin"),
        ("gru", "plain"),
        ("patchtst", "plain"),
    ],
)
def test_options_that_would_change_nothing_are_refused(spec: tuple[str, str], tiny_budget: Budget) -> None:
    with pytest.raises(ConfigError):
        network_forecaster(spec[0], frozenset({spec[1]}), tiny_budget, "tiny")


def test_plain_takes_revin_away(parts: dict[str, WindowSet], tiny_budget: Budget) -> None:
    batch = some(parts["train"])
    shifted = replace(batch, x_BKC=batch.x_BKC + 5.0)
    moved = {}
    for options in (frozenset[str](), frozenset({"plain"})):
        forecaster = network_forecaster("tide", options, tiny_budget, "tiny")
        forecaster.fit(parts["train"], parts["validation"], seed=0)
        moved[len(options)] = (forecaster.predict(shifted).mean - forecaster.predict(batch).mean - 5.0).abs().max()
    assert moved[0] < 1e-3 < moved[1]


def test_drop_hides_whole_channels_in_training_only(
    parts: dict[str, WindowSet], tiny_budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    forward = (
        RECIPES["mlp"].build(Features(Shape(16, 3, 2, (1, 2, 4)), NetworkInputs()), "tiny", False).__class__.forward
    )

    def watched(self: Network, batch: WindowBatch) -> object:
        seen[self.training].append(batch.m_BKC)
        return forward(self, batch)

    monkeypatch.setattr("crossfeed.evaluation.baselines.network.EncodingNetwork.forward", watched)
    forecaster = network_forecaster("mlp", frozenset({"drop"}), tiny_budget, "tiny")
    forecaster.fit(parts["train"], parts["validation"], seed=0)
    assert forecaster.name == "mlp+drop"
    trained, validated = torch.cat(seen[True]), torch.cat(seen[False])
    assert validated.all()
    whole_BC = trained.all(1)
    assert torch.equal(whole_BC, trained.any(1))
    assert 0.02 < float((~whole_BC).float().mean()) < 0.4


def test_sizes_shrink_and_base_has_the_widths_of_the_paper(shape: Shape) -> None:
    features = Features(shape, NetworkInputs())
    counts = {
        size: sum(p.numel() for p in RECIPES["gru"].build(features, size, False).parameters())
        for size in ("tiny", "compact", "base")
    }
    assert counts["tiny"] < counts["compact"] < counts["base"]
    reader = RECIPES["gru"].build(features, "base", False).get_submodule("encoder.reader")
    assert (reader.hidden_size, reader.num_layers) == (256, 2)
    rssm = RECIPES["rssm"].build(features, "base", False)
    assert (rssm.width, rssm.stochastic) == (256, 64)


def test_a_horizon_knows_the_plan_up_to_its_own_row(parts: dict[str, WindowSet], shape: Shape) -> None:
    batch = some(parts["train"])
    plan_BHG = Features(shape, NetworkInputs()).plan(batch)
    steps_BHTA = plan_BHG[..., : shape.steps * shape.commands].unflatten(2, (shape.steps, shape.commands))
    for slot, horizon in enumerate(shape.horizons):
        assert torch.equal(steps_BHTA[:, slot, :horizon], batch.future_a_BTA[:, :horizon])
        assert not steps_BHTA[:, slot, horizon:].any()
    assert torch.equal(plan_BHG[..., shape.steps * shape.commands :], batch.mean_a_BHA)
