"""The whole model: absent values never matter, parts have the paper's sizes, low precision stays close."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from crossfeed.errors import ConfigError
from crossfeed.model.interface import Plan, Stage
from crossfeed.model.presets import MethodConfig, mended, paper
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.windows.windows import WindowBatch
from tests.model import toy
from tests.model.toy import batch, filled, method, model


def _everything(config: MethodConfig, windows: WindowBatch, stage: Stage) -> list[Tensor]:
    """Outputs, losses and all gradients of one training step."""
    net = model(config)
    views = toy.shown(net, config, windows)
    net.train()
    torch.manual_seed(7)
    losses = net.losses(windows, views, stage, config.objectives)
    losses.total(config.objectives.active(stage)).backward()
    net.eval()
    prediction = net(windows)
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    said = prediction.distribution
    outputs = [said.mean, said.standard_deviation, prediction.latent_BHD, net.encode_target(windows)]
    return [*outputs, *losses.terms.values(), *gradients]


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
@pytest.mark.parametrize("value", [float("nan"), 1e6])
@pytest.mark.parametrize("kind", ["none", "pure", "floored", "blended", "split", "centred", "paper"])
def test_values_of_absent_channels_change_no_bit(kind: str, value: float, stage: Stage) -> None:
    config = method(base=paper()) if kind == "paper" else method({"model.instance_norm.kind": kind})
    windows = batch()
    windows = replace(windows, m_BKC=windows.m_BKC.clone())
    windows.m_BKC[:, :, 4] = False
    windows.m_BKC[1, 3] = False
    windows.future_m_BHC[:, :, 4] = False
    zeroed, dirty = (_everything(config, filled(windows, stored), stage) for stored in (0.0, value))
    assert len(zeroed) == len(dirty) > 40
    assert all(torch.equal(first, second) for first, second in zip(zeroed, dirty))
    assert all(tensor.isfinite().all() for tensor in dirty)


def test_parts_of_the_locked_model_have_the_papers_sizes() -> None:
    schema = canonical()
    normaliser = replace(
        toy.normaliser(),
        sensor_names=schema.sensor_names,
        command_names=schema.command_names,
        sensor_location=torch.zeros(17).numpy(),
        sensor_scale=torch.ones(17).numpy(),
        command_location=torch.zeros(4).numpy(),
        command_scale=torch.ones(4).numpy(),
    )
    with torch.device("meta"):
        net = WorldModel.build(paper("base").model, schema, normaliser)
    counts = {name: sum(p.numel() for p in part.parameters()) for name, part in net.named_children()}
    wanted = {
        "context_encoder": 6.52e6,
        "target_encoder": 6.52e6,
        "predictor": 3.26e6,
        "head": 8.7e3,
        "recovery": 0.13e6,
    }
    assert set(counts) == set(wanted)
    for name, count in counts.items():
        assert count == pytest.approx(wanted[name], rel=0.02 if name == "recovery" else 0.01), name


@pytest.mark.parametrize("preset", [paper, mended])
def test_every_trainable_parameter_is_moved_by_fine_tuning(preset: object) -> None:
    config = method(base=preset())  # type: ignore[operator]
    net, windows = model(config), batch(presence=1.1)
    views = toy.shown(net, config, windows)
    net.losses(windows, views, "finetune", config.objectives).total(config.objectives.active("finetune")).backward()
    still = [name for name, p in net.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())]
    assert still == []


def test_bfloat16_autocast_keeps_losses_in_float32_and_close() -> None:
    config = method()
    net, windows = model(config), batch()
    views = toy.shown(net, config, windows)
    plain = net.losses(windows, views, "finetune", config.objectives).terms
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = net.losses(windows, views, "finetune", config.objectives).terms
    for name, term in mixed.items():
        assert term.dtype == torch.float32
        assert term.item() == pytest.approx(plain[name].item(), rel=0.1, abs=0.01), name


def test_predictions_have_ordered_quantiles_around_their_mean() -> None:
    said = model()(batch()).distribution
    low, middle, high = (said.quantile(level) for level in (0.1, 0.5, 0.9))
    assert ((low < middle) & (middle < high)).all()
    torch.testing.assert_close(middle, said.mean)


def test_a_context_is_encoded_once_for_several_plans() -> None:
    net, windows = model(method()), batch()
    context = net.encode(windows.x_BKC, windows.m_BKC, windows.a_BKA)
    own, other = Plan.of(windows, net.horizons), Plan.under(windows.future_a_BTA + 1.0, net.horizons)
    torch.testing.assert_close(net.decode(context, own).distribution.mean, net(windows).distribution.mean)
    assert not torch.equal(net.decode(context, other).distribution.mean, net.decode(context, own).distribution.mean)
    torch.testing.assert_close(Plan.under(windows.future_a_BTA, net.horizons).mean_a_BHA, own.mean_a_BHA)


@pytest.mark.parametrize("kind", ["none", "centred"])
@pytest.mark.parametrize("empty_row", ["zero", "first_channel"])
def test_reading_only_the_channels_that_are_there_changes_nothing(kind: str, empty_row: str) -> None:
    net = model(method({"model.instance_norm.kind": kind, "model.encoder.empty_row": empty_row}))
    windows = batch()
    m_BKC = windows.m_BKC.clone()
    m_BKC[..., [0, 3]] = False
    channels = net.channels_to_read(m_BKC.flatten(0, 1).any(0))
    assert channels is not None
    plan = Plan.of(windows, net.horizons)
    found, wanted = (
        net.decode(net.encode(windows.x_BKC, m_BKC, windows.a_BKA, chosen), plan).distribution
        for chosen in (channels, None)
    )
    torch.testing.assert_close(found.mean, wanted.mean, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.standard_deviation, wanted.standard_deviation, atol=1e-5, rtol=1e-5)


def test_windows_cut_for_another_model_are_refused() -> None:
    windows = batch()
    with pytest.raises(ConfigError, match="7 context rows"):
        model()(replace(windows, x_BKC=windows.x_BKC[:, 1:], m_BKC=windows.m_BKC[:, 1:], a_BKA=windows.a_BKA[:, 1:]))
    with pytest.raises(ConfigError, match="2 horizons up to 2"):
        model()(replace(windows, mean_a_BHA=windows.mean_a_BHA[:, :2], future_a_BTA=windows.future_a_BTA[:, :2]))


def test_a_normaliser_of_other_channels_is_refused() -> None:
    turned = replace(toy.normaliser(), sensor_names=toy.SCHEMA.sensor_names[::-1])
    with pytest.raises(ConfigError, match="other channels"):
        WorldModel.build(method().model, toy.SCHEMA, turned)


@pytest.mark.parametrize("forgotten", sorted(WorldModel.__abstractmethods__))
def test_a_network_that_forgot_a_method_answered_none(forgotten: str) -> None:
    """`@abstractmethod` does nothing without the metaclass that reads it."""
    written = {name: lambda *_: None for name in WorldModel.__abstractmethods__ - {forgotten}}
    network = type("Network", (WorldModel,), written)
    with pytest.raises(TypeError, match=forgotten):
        network(method().model, toy.SCHEMA, toy.normaliser())
    type("Network", (network,), {forgotten: lambda *_: None})(method().model, toy.SCHEMA, toy.normaliser())
