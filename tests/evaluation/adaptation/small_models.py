"""Two differentiable forecasters for the small machine: a plain network, and a tiny world model."""

import torch
from torch import nn

from crossfeed.evaluation.forecaster import Learner
from crossfeed.evaluation.opened_model import WorldModelForecaster
from crossfeed.model.distribution import Gaussian
from crossfeed.model.presets import crossfeed, mended
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet
from tests.evaluation.small_machine import CONTEXT, HORIZONS, SCHEMA


class Network(nn.Module):
    """Reads the last row and the plan; its parts are named for adaptation."""

    adaptation_parts = {"head": ("mean.", "log_scale.")}

    def __init__(self) -> None:
        super().__init__()
        sensors, commands, steps = len(SCHEMA.sensors), len(SCHEMA.commands), max(HORIZONS)
        self.body = nn.Sequential(nn.Linear(sensors + commands * steps, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU())
        self.mean = nn.Linear(48, len(HORIZONS) * sensors)
        self.log_scale = nn.Linear(48, len(HORIZONS) * sensors)

    def forward(self, batch: WindowBatch) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(torch.cat([batch.x_BKC[:, -1], batch.future_a_BTA.flatten(1)], 1))
        shape = (len(hidden), len(HORIZONS), len(SCHEMA.sensors))
        return self.mean(hidden).view(shape), self.log_scale(hidden).view(shape)


class NetworkForecaster(Learner):
    """The network behind the interface."""

    name, uses_future_commands = "network", True

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.module = Network()

    def predict(self, batch: WindowBatch) -> Gaussian:
        mean, log_scale = self.module(batch)
        return Gaussian(mean, log_scale.clamp(-4.0, 4.0).exp())

    def fit(self, train: WindowSet, validation: WindowSet, seed: int, steps: int = 400) -> None:  # noqa: ARG002
        generator = torch.Generator().manual_seed(seed)
        optimiser = torch.optim.Adam(self.module.parameters(), 3e-3)
        for _ in range(steps):
            batch = train.batch(torch.randint(len(train), (64,), generator=generator))
            loss = self.predict(batch).nll(batch.future_x_BHC).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()


def tiny_world_model(normaliser: Normaliser, seed: int = 0, network: str = "sensors") -> WorldModelForecaster:
    torch.manual_seed(seed)
    alone = {"members": 1} if network == "sensors" else {}
    config = (crossfeed if network == "sensors" else mended)("tiny").model.model_copy(
        update={"context": CONTEXT, "horizons": HORIZONS, **alone}
    )
    model = WorldModel.build(config, SCHEMA, normaliser)
    if isinstance(model, SensorModel):
        # Its head begins as persistence, whatever it reads; a trained one listens.
        torch.nn.init.normal_(model.network.head.linear.weight, std=0.05)
    return WorldModelForecaster(model)
