"""Models small enough to test in milliseconds: 5 sensors, 2 commands, 8 rows of context, horizons 1, 2 and 4."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from crossfeed.model.config import SensorConfig
from crossfeed.model.interface import Views
from crossfeed.model.jepa.model import JepaModel
from crossfeed.model.presets import MethodConfig, crossfeed, mended
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Channel, Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch

SCHEMA = Schema(
    name="toy",
    sensors=tuple(Channel(name=f"current_{number}", quantity="current", unit="A") for number in range(5)),
    commands=tuple(Channel(name=f"feed_{number}", quantity="feed", unit="mm/min") for number in range(2)),
)
HORIZONS = (1, 2, 4)
SMALL = {"model.context": 8, "model.horizons": HORIZONS}
SMALL_JEPA = {
    **SMALL,
    "model.blocks.width": 16,
    "model.blocks.heads": 2,
    "model.encoder.channel_layers": 1,
    "model.encoder.temporal_layers": 1,
    "model.encoder.positions": 16,
    "model.predictor.layers": 1,
}
SMALL_SENSORS = {**SMALL, "model.width": 16, "model.heads": 2, "model.encoder_layers": 1, "model.decoder_layers": 1}


def normaliser() -> Normaliser:
    """Locations and scales that make physical units and z-space clearly different."""
    return Normaliser(
        method="zscore",
        floor=0.05,
        sensor_names=SCHEMA.sensor_names,
        command_names=SCHEMA.command_names,
        sensor_location=np.arange(5.0),
        sensor_scale=np.linspace(0.5, 4.0, 5),
        command_location=np.array([100.0, -50.0]),
        command_scale=np.array([300.0, 20.0]),
        unseen=(),
        fitted_on="0" * 64,
    )


def method(changes: Mapping[str, Any] | None = None, base: MethodConfig | None = None) -> MethodConfig:
    """The paper's method without its errors (or another) at toy size, with dotted changes."""
    base = base or mended()
    content = base.model_dump(mode="json")
    small = SMALL_JEPA if base.model.network == "jepa" else SMALL_SENSORS
    for path, value in {**small, **(changes or {})}.items():
        *parents, leaf = path.split(".")
        place = content
        for parent in parents:
            place = place[parent]
        assert leaf in place, path
        place[leaf] = value
    return MethodConfig.model_validate(content)


def model(config: MethodConfig | None = None, seed: int = 0) -> JepaModel:
    """A freshly initialised toy model with the paper's network, in eval mode."""
    torch.manual_seed(seed)
    return JepaModel((config or method()).jepa, SCHEMA, normaliser()).eval()


def sensor_method(changes: Mapping[str, Any] | None = None) -> MethodConfig:
    """The default method at toy size, with dotted changes."""
    return method(changes, crossfeed())


def sensor_model(config: MethodConfig | None = None, seed: int = 0) -> SensorModel:
    """A freshly initialised toy model with the sensor network, in eval mode.

    Its head starts as persistence, whatever it reads; a little noise makes it say something of its own.
    """
    torch.manual_seed(seed)
    chosen = (config or sensor_method()).model
    assert isinstance(chosen, SensorConfig)
    net = SensorModel(chosen, SCHEMA, normaliser()).eval()
    with torch.no_grad():
        net.network.head.linear.weight.normal_(std=0.1)
    return net


def batch(size: int = 6, seed: int = 0, presence: float = 0.8) -> WindowBatch:
    """Random windows with absent entries stored as zeros, as the windows room stores them."""
    draw = torch.Generator().manual_seed(seed)
    m_BKC = torch.rand(size, 8, 5, generator=draw) < presence
    m_BKC[:, 0, 0] = True
    future_m_BHC = torch.rand(size, 3, 5, generator=draw) < presence
    future_m_BHC[:, :, 0] = True
    future_a_BTA = torch.randn(size, 4, 2, generator=draw)
    return WindowBatch(
        x_BKC=torch.where(m_BKC, torch.randn(size, 8, 5, generator=draw), 0.0),
        m_BKC=m_BKC,
        a_BKA=torch.randn(size, 8, 2, generator=draw),
        future_x_BHC=torch.where(future_m_BHC, torch.randn(size, 3, 5, generator=draw), 0.0),
        future_m_BHC=future_m_BHC,
        mean_a_BHA=torch.stack([future_a_BTA[:, :horizon].mean(1) for horizon in HORIZONS], 1),
        future_a_BTA=future_a_BTA,
        last_index_B=torch.arange(size),
        machine_B=torch.zeros(size, dtype=torch.long),
    )


def filled(windows: WindowBatch, value: float) -> WindowBatch:
    """The same windows with `value` stored under every absent entry."""
    return replace(
        windows,
        x_BKC=torch.where(windows.m_BKC, windows.x_BKC, value),
        future_x_BHC=torch.where(windows.future_m_BHC, windows.future_x_BHC, value),
    )


def shown(net: WorldModel, config: MethodConfig, windows: WindowBatch) -> Views:
    """What of these windows a training step shows, with everything else as it was measured."""
    ones_B1C = torch.ones_like(windows.x_BKC[:, :1])
    draws = torch.Generator().manual_seed(0)
    return net.views(windows, windows, ones_B1C, config.masks, config.objectives, draws)[1]
