"""The planned commands, step by step, as tokens the predictor can read.

B windows, T future steps, H horizons, A commands, D latent width.
"""

from torch import Tensor, nn

from crossfeed.model.parts.attention import CrossAttention
from crossfeed.model.parts.blocks import BlockConfig, embedding


class CommandTokens(nn.Module):
    """One token per planned command: a linear map plus a learned embedding of its place in the sequence."""

    def __init__(self, commands: int, places: int, width: int) -> None:
        super().__init__()
        self.command = nn.Linear(commands, width)
        self.place = embedding(places, width)

    def forward(self, a_BTA: Tensor) -> Tensor:
        token_BTD: Tensor = self.command(a_BTA) + self.place[: a_BTA.shape[1]]
        return token_BTD


class CommandSummary(nn.Module):
    """A reading of the command sequence for each slot: the summary of slot h knows a_{t+1..t+h} only."""

    def __init__(self, commands: int, places: int, blocks: BlockConfig) -> None:
        super().__init__()
        self.tokens = CommandTokens(commands, places, blocks.width)
        self.attention = CrossAttention(blocks.width, blocks.heads, blocks.dropout)
        self.norm = nn.LayerNorm(blocks.width)

    def forward(self, a_BTA: Tensor, horizon_HD: Tensor, allowed_HT: Tensor) -> Tensor:
        question_BHD = horizon_HD.expand(a_BTA.shape[0], -1, -1)
        summary_BHD: Tensor = self.norm(self.attention(question_BHD, self.tokens(a_BTA), allowed_HT))
        return summary_BHD
