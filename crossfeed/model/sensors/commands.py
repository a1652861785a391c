"""Commands as what they mean: how far from standing, how they change, how that compares with what was done before.

A drive answers to acceleration, not to speed alone, and a spindle at 70 % answers to the ratio. A network that is given
these numbers need not find them in a few thousand windows.

B windows, K context rows, T planned steps, S = K + T rows, A commands, G groups of commands, F features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser

FILTERS = (0.5, 0.8)  # how much of a change is still felt one row later
RECENT = 8  # rows of the context that say how the machine was driven
STANDS = 1e-3  # in standard deviations of the source's commands
OF_EACH_COMMAND, OF_EACH_GROUP = 3 + len(FILTERS), 6  # features, each for all commands or groups before the next
SMALL = 0.1  # keeps ratios finite where a command stands


@dataclass(frozen=True, slots=True)
class PlanFeatures:
    """What the commands of a window mean: features of each planned step, and how hard each group was driven."""

    step_BTF: Tensor
    effort_BSG: Tensor


class CommandFeatures(nn.Module):
    """Turns z-scored commands into features; everything in it follows from the schema and the normaliser."""

    zero_A: Tensor
    group_AG: Tensor
    filter_TS: Tensor

    def __init__(self, schema: Schema, normaliser: Normaliser, context: int, longest: int) -> None:
        super().__init__()
        self.context = context
        commands = len(schema.commands)
        self.register_buffer("zero_A", torch.from_numpy(normaliser.command_zero).float(), persistent=False)
        groups = schema.command_groups
        group_AG = torch.zeros(commands, len(groups))
        for number, members in enumerate(groups):
            group_AG[list(members), number] = 1.0
        self.register_buffer("group_AG", group_AG, persistent=False)
        filters = torch.stack([_departure(strength, context + longest) for strength in FILTERS])
        self.register_buffer("filter_TS", filters[:, context:], persistent=False)
        self.count = OF_EACH_COMMAND * commands + OF_EACH_GROUP * len(groups)

    @property
    def groups(self) -> int:
        """How many groups of commands there are."""
        return self.group_AG.shape[1]

    def from_zero(self, a_BKA: Tensor) -> Tensor:
        """Commands seen from where they stand still."""
        return a_BKA - self.zero_A

    def forward(self, past_BKA: Tensor, future_BTA: Tensor) -> PlanFeatures:
        """Features of the planned steps; step s is described by commands up to s and by no later one."""
        # In full precision whatever a run computes in: ratios of commands decide by what forecasts are multiplied.
        with torch.autocast(past_BKA.device.type, enabled=False):
            return self._features(past_BKA, future_BTA)

    def _features(self, past_BKA: Tensor, future_BTA: Tensor) -> PlanFeatures:
        context, steps = past_BKA.shape[1], future_BTA.shape[1]
        all_BSA = self.from_zero(torch.cat([past_BKA, future_BTA], 1))
        value_BTA, before_BTA = all_BSA[:, context:], all_BSA[:, context - 1 : -1]
        filters_TS = self.filter_TS[:, :steps, : context + steps]
        departure = [filter_TS @ all_BSA for filter_TS in filters_TS]
        # The root of a sum of squares has no slope at zero, where commands stand most of the time.
        effort_BSG = (all_BSA.square() @ self.group_AG + 1e-8).sqrt()
        effort_BTG = effort_BSG[:, context:]
        usual_B1G = effort_BSG[:, max(0, context - RECENT) : context].mean(1, keepdim=True)
        before_BTG = effort_BSG[:, context - 1 : -1]
        features = [
            value_BTA,
            value_BTA - before_BTA,
            *departure,
            (value_BTA.abs() < STANDS).to(value_BTA.dtype),
            effort_BTG,
            effort_BTG - before_BTG,
            torch.log((effort_BTG + SMALL) / (usual_B1G + SMALL)),
            effort_BTG.cumsum(1) / steps_ahead(steps, effort_BTG),
            # Whether the path goes on as it went: a turned knob keeps its direction, the next cut seldom does.
            _straight(value_BTA * before_BTA @ self.group_AG, effort_BTG, before_BTG),
            _straight(value_BTA * all_BSA[:, context - 1 : context] @ self.group_AG, effort_BTG, before_BTG[:, :1]),
        ]
        return PlanFeatures(torch.cat(features, -1), effort_BSG)


def _straight(product: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """The cosine between two directions; 0 where either stands."""
    return product / (here * there + SMALL * SMALL)


def steps_ahead(steps: int, like: Tensor) -> Tensor:
    """1, 2, 3, ... as a column, with the type and device of `like`."""
    return torch.arange(1, steps + 1, dtype=like.dtype, device=like.device).unsqueeze(-1)


def _departure(strength: float, rows: int) -> Tensor:
    """As a matrix over rows: how far a command is from its own past, which fades by `strength` a row."""
    age_SS = torch.arange(rows).unsqueeze(1) - torch.arange(rows)
    fading_SS = torch.where(age_SS > 0, (1.0 - strength) * strength ** (age_SS - 1).clamp(min=0), 0.0)
    # What lies before the first row is taken to be like the first row.
    fading_SS[:, 0] += 1.0 - fading_SS.sum(1)
    fading_SS[0] = 0.0
    fading_SS[0, 0] = 1.0
    return torch.eye(rows) - fading_SS
