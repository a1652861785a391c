"""A sensor network small enough to test in milliseconds: 4 sensors, 3 commands, 8 rows of context, horizons 1, 2, 4."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossfeed.model.config import SensorConfig
from crossfeed.model.distribution import Mixture
from crossfeed.model.interface import Plan
from crossfeed.model.sensors.model import SensorModel
from crossfeed.schema import Channel, Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch

CONTEXT, HORIZONS = 8, (1, 2, 4)
SCHEMA = Schema(
    name="small",
    sensors=(
        Channel(name="spindle_current", quantity="current", unit="A"),
        Channel(name="x_current", quantity="current", unit="A"),
        Channel(name="spindle_motor_temp", quantity="temperature", unit="degC"),
        Channel(name="ambient_temp", quantity="temperature", unit="degC"),
    ),
    commands=(
        Channel(name="spindle_speed", quantity="rotational speed", unit="rpm"),
        Channel(name="feed_x", quantity="feed", unit="mm/min"),
        Channel(name="feed_y", quantity="feed", unit="mm/min"),
    ),
)
SENSORS, COMMANDS = len(SCHEMA.sensors), len(SCHEMA.commands)
REACHED = torch.tensor([True, True, False, False])  # currents have their zero within reach, temperatures do not


def normaliser(schema: Schema = SCHEMA) -> Normaliser:
    """Channels by their names: the zeros of currents at -1 and -0.5, those of temperatures far away."""
    sensors = {
        "spindle_current": (4.0, 4.0),
        "x_current": (1.0, 2.0),
        "spindle_motor_temp": (40.0, 2.0),
        "ambient_temp": (22.0, 0.5),
    }
    commands = {"spindle_speed": (3000.0, 1500.0), "feed_x": (0.0, 400.0), "feed_y": (100.0, 400.0)}
    located, driven = (np.array([table[c.name] for c in side]) for table, side in (
        (sensors, schema.sensors), (commands, schema.commands)
    ))  # fmt: skip
    return Normaliser(
        method="zscore",
        floor=0.05,
        sensor_names=schema.sensor_names,
        command_names=schema.command_names,
        sensor_location=located[:, 0],
        sensor_scale=located[:, 1],
        command_location=driven[:, 0],
        command_scale=driven[:, 1],
        unseen=(),
        fitted_on="0" * 64,
    )


def config(**changes: Any) -> SensorConfig:
    """The smallest network that has everything."""
    size = {"width": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return SensorConfig(**{"context": CONTEXT, "horizons": HORIZONS, "members": 1, **size, **changes})


def fresh(schema: Schema = SCHEMA, seed: int = 0, **changes: Any) -> SensorModel:
    """A newly drawn model, in double precision and evaluation mode."""
    torch.manual_seed(seed)
    return SensorModel(config(**changes), schema, normaliser(schema)).double().eval()


@torch.no_grad()
def stirred(seed: int = 0, **changes: Any) -> SensorModel:
    """A model as training might leave it: every weight has moved, the head no longer repeats its bias."""
    model, chance = fresh(seed=seed, **changes), torch.Generator().manual_seed(seed + 1)
    for parameter in model.parameters():
        parameter.add_(0.2 * torch.randn(parameter.shape, generator=chance, dtype=parameter.dtype))
    return model


def windows(size: int = 4, seed: int = 0, presence: float = 0.7) -> WindowBatch:
    """Random windows in double precision; absent entries are stored as zeros, as the windows room stores them."""
    chance = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=chance, dtype=torch.float64)

    m_BKC = torch.rand(size, CONTEXT, SENSORS, generator=chance) < presence
    future_m_BHC = torch.rand(size, len(HORIZONS), SENSORS, generator=chance) < presence
    future_a_BTA = normal(size, HORIZONS[-1], COMMANDS)
    return WindowBatch(
        x_BKC=torch.where(m_BKC, normal(size, CONTEXT, SENSORS), 0.0),
        m_BKC=m_BKC,
        a_BKA=normal(size, CONTEXT, COMMANDS),
        future_x_BHC=torch.where(future_m_BHC, normal(size, len(HORIZONS), SENSORS), 0.0),
        future_m_BHC=future_m_BHC,
        mean_a_BHA=torch.stack([future_a_BTA[:, :horizon].mean(1) for horizon in HORIZONS], 1),
        future_a_BTA=future_a_BTA,
        last_index_B=torch.arange(size),
        machine_B=torch.zeros(size, dtype=torch.long),
    )


def single(batch: WindowBatch) -> WindowBatch:
    """The same windows in the precision in which models are trained and stored."""
    found = {name: getattr(batch, name) for name in batch.__dataclass_fields__}
    return replace(batch, **{name: value.float() for name, value in found.items() if value.is_floating_point()})


def say(model: SensorModel, batch: WindowBatch, horizons: tuple[int, ...] = HORIZONS) -> Mixture:
    """What the model forecasts for these windows under their own commands."""
    with torch.no_grad():
        context = model.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA)
        said = model.decode(context, Plan.under(batch.future_a_BTA, horizons)).distribution
    assert isinstance(said, Mixture)
    return said.broadcast()


def assert_same(one: Mixture, two: Mixture, atol: float = 1e-10) -> None:
    """Two mixtures agree in every part."""
    for name in ("log_weight_M", "mean_M", "scale_M"):
        torch.testing.assert_close(getattr(one, name), getattr(two, name), rtol=0.0, atol=atol, msg=name)
