"""The classics among the networks, which sum their context up in one vector: MLP, GRU, LSTM and TCN.

B windows, K context rows, D width. Sizes of the paper: 256-256; 2 x 256; 5 layers, kernel 3, dilations 1..16.
"""

from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from crossfeed.baselines.inputs import Features
from crossfeed.baselines.network import DROPOUT, EncodingNetwork, HorizonDecoder
from crossfeed.windows.windows import WindowBatch

_KERNEL, _LAYERS = 3, 5


class Mlp(EncodingNetwork):
    """Two hidden layers; the second mixes the state with the command plan of each horizon."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        self.features = features
        self.first = nn.Linear(features.shape.context * features.context_width, width)
        self.decoder = HorizonDecoder(features, width)

    def encode(self, batch: WindowBatch) -> Tensor:
        return gelu(self.first(self.features.context(batch).flatten(1)))


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


class CausalBlock(nn.Module):
    """A residual causal convolution: no output sees a later input."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.past = (_KERNEL - 1) * dilation
        self.norm = nn.GroupNorm(1, width)
        self.convolution = nn.Conv1d(width, width, _KERNEL, dilation=dilation)
        self.pointwise = nn.Conv1d(width, width, 1)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x_BDK: Tensor) -> Tensor:
        # The norm spans time as well; inside a finished context nothing later than t exists to leak.
        hidden_BDK = gelu(self.convolution(pad(self.norm(x_BDK), (self.past, 0))))
        residual_BDK: Tensor = x_BDK + self.dropout(self.pointwise(hidden_BDK))
        return residual_BDK


class Tcn(EncodingNetwork):
    """Dilations double from layer to layer, so five layers see 63 steps."""

    def __init__(self, features: Features, width: int) -> None:
        super().__init__()
        self.features = features
        self.enter = nn.Conv1d(features.context_width, width, 1)
        self.blocks = nn.Sequential(*(CausalBlock(width, 2**layer) for layer in range(_LAYERS)))
        self.decoder = HorizonDecoder(features, width)

    def encode(self, batch: WindowBatch) -> Tensor:
        x_BFK = self.features.context(batch).transpose(1, 2)
        last_BD: Tensor = self.blocks(self.enter(x_BFK))[:, :, -1]
        return last_BD
