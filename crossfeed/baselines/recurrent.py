"""GRU and LSTM: two layers read the context, the last state forecasts (2 x 256 in the paper)."""

from torch import Tensor, nn

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import EncodingNetwork, HorizonDecoder
from crossfeed.windows.windows import WindowBatch


class Recurrent(EncodingNetwork):
    """A stacked recurrent reader of either cell."""

    def __init__(self, features: Features, cell: type[nn.GRU] | type[nn.LSTM], width: int) -> None:
        super().__init__()
        self.features = features
        self.reader = cell(features.context_width, width, num_layers=2, batch_first=True)
        self.decoder = HorizonDecoder(features, width)

    def encode(self, batch: WindowBatch) -> Tensor:
        steps_BKD: Tensor = self.reader(self.features.context(batch))[0]
        return steps_BKD[:, -1]
