"""A multi-layer perceptron over the flattened window (256-256 in the paper)."""

from torch import Tensor, nn
from torch.nn.functional import gelu

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import EncodingNetwork, HorizonDecoder
from crossfeed.windows.windows import WindowBatch


class Mlp(EncodingNetwork):
    """Two hidden layers; the second mixes the state with the command plan of each horizon."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        self.features = features
        self.first = nn.Linear(features.shape.context * features.context_width, width)
        self.decoder = HorizonDecoder(features, width)

    def encode(self, batch: WindowBatch) -> Tensor:
        return gelu(self.first(self.features.context(batch).flatten(1)))
