"""A multi-layer perceptron over the flattened window (256-256 in the paper)."""

from torch import nn
from torch.nn.functional import gelu

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import HorizonDecoder, Network
from crossfeed.distribution import Distribution
from crossfeed.windows.windows import WindowBatch


class Mlp(Network):
    """Two hidden layers; the second mixes the state with the command plan of each horizon."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        self.features = features
        self.first = nn.Linear(features.shape.context * features.context_width, width)
        self.decoder = HorizonDecoder(features, width)

    def forward(self, batch: WindowBatch) -> Distribution:
        flat_BN = self.features.context(batch).flatten(1)
        forecast: Distribution = self.decoder(gelu(self.first(flat_BN)), batch)
        return forecast
