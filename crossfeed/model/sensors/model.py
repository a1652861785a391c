"""The world model of the `crossfeed` preset: one or several sensor networks over the same windows.

B windows, K context rows, H horizons, C sensors, A commands, N tokens, D width.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from crossfeed.distribution import Distribution, Mixture
from crossfeed.model.parts.horizon_embedding import check_between, interpolation
from crossfeed.model.parts.instance_norm import InstanceNorm, InstanceNormConfig, Statistics
from crossfeed.model.plan import Plan
from crossfeed.model.prediction import Prediction
from crossfeed.model.sensors.commands import CommandMeaning, Meaning
from crossfeed.model.sensors.config import SensorConfig
from crossfeed.model.sensors.network import AskedHorizons, SensorNetwork
from crossfeed.model.sensors.window import SensorRows, SensorWindow
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import Schema
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch


@dataclass(frozen=True, slots=True)
class SensorContext:
    """The tokens of every member, the window they were made from and the commands that led to it."""

    tokens_BND: tuple[Tensor, ...]
    window: SensorWindow
    a_BKA: Tensor

    def map(self, function: Callable[[Tensor], Tensor]) -> "SensorContext":
        """The same with each of its tensors changed; windows lie along the first axis."""
        tokens = tuple(function(token_BND) for token_BND in self.tokens_BND)
        return SensorContext(tokens, self.window.map(function), function(self.a_BKA))


class SensorModel(WorldModel):
    """Members that differ in their start alone; what they say is pooled, what they disagree on is not known."""

    config: SensorConfig
    widening_H: Tensor
    usual_doubt: Tensor
    step_H: Tensor

    def __init__(self, config: SensorConfig, schema: Schema, normaliser: Normaliser) -> None:
        super().__init__(config, schema, normaliser)
        self._centring = InstanceNorm(InstanceNormConfig(kind="centred"))
        self.meaning = CommandMeaning(schema, normaliser, config.context, config.horizons[-1])
        self.members = nn.ModuleList(
            SensorNetwork(config, schema, normaliser, self.meaning) for _ in range(config.members)
        )
        # Fitted once, after training, on source validation: how much wider forecasts have to be at each horizon.
        self.register_buffer("widening_H", torch.ones(len(config.horizons)))
        # Likewise: by how much members disagree about all but one in a hundred validation windows.
        self.register_buffer("usual_doubt", torch.zeros(()))
        self.register_buffer("step_H", torch.tensor(config.horizons) - 1, persistent=False)

    @property
    def adaptation_parts(self) -> dict[str, tuple[str, ...]]:
        """Which parameters each way of adapting may move."""
        parts = {
            "head": ("head.",),
            "predictor": ("decoder.", "near.", "step.", "step_place", "horizon", "norm.", "head."),
            "channels": ("sensors.",),
        }
        numbers = range(len(self.members))
        return {mode: tuple(f"members.{n}.{name}" for n in numbers for name in names) for mode, names in parts.items()}

    def level(self, x_BKC: Tensor, m_BKC: Tensor) -> Statistics:
        """The mean of each sensor in the window."""
        level = self._centring.statistics(x_BKC, m_BKC)
        assert level is not None
        return level

    def read(
        self,
        x_BRC: Tensor,
        m_BRC: Tensor,
        level: Statistics | None,
        channels: Tensor | None = None,  # noqa: ARG002
    ) -> SensorRows:
        """Rows are kept as they are; what they mean depends on the window they are in."""
        assert level is not None, "a sensor network sees every window from a level"
        return SensorRows(x_BRC, m_BRC, level)

    def context(self, rows: SensorRows, a_BKA: Tensor, pooled: bool = False) -> SensorContext:  # noqa: ARG002
        """The tokens of every member."""
        window = SensorWindow.of(rows)
        past_BKA = self.meaning.from_zero(a_BKA)
        tokens = tuple(member.encode(window, past_BKA) for member in self._networks)
        return SensorContext(tokens, window, a_BKA)

    def decode(self, context: SensorContext, plan: Plan) -> Prediction:
        """What the members say together."""
        return self._together(self.members_say(context, plan), context, plan)

    def decode_with_disagreement(self, context: SensorContext, plan: Plan) -> tuple[Prediction, Tensor]:
        """What the members say together, and how far apart they are: both for the price of one."""
        said = self.members_say(context, plan)
        return self._together(said, context, plan), _apart(said)

    def _together(self, said: list[tuple[Tensor, Mixture]], context: SensorContext, plan: Plan) -> Prediction:
        latent_BHD = said[0][0].mean(2)
        mixtures = [mixture for _, mixture in said]
        pooled = mixtures[0] if len(mixtures) == 1 else Mixture.pooled(mixtures)
        return Prediction(latent_BHD, self._widened(pooled, plan.horizons), context)

    def members_say(self, context: SensorContext, plan: Plan) -> list[tuple[Tensor, Mixture]]:
        """Queries and mixtures of each member, before they are widened: what training looks at."""
        asked, meaning = self._asked(plan.horizons), self._meant(context.a_BKA, plan)
        return [
            member.decode(token_BND, context.window, meaning, asked)
            for member, token_BND in zip(self._networks, context.tokens_BND, strict=True)
        ]

    def follow_paths(self, rows: SensorRows, a_BKA: Tensor, plan: Plan) -> Distribution:
        """What follows each of B sampled paths; path b keeps to member b modulo their number, whatever is planned."""
        window, past_BKA = SensorWindow.of(rows), self.meaning.from_zero(a_BKA)
        asked, meaning = self._asked(plan.horizons), self._meant(a_BKA, plan)
        # Members that no path keeps to are not asked.
        count, parts = min(len(self.members), len(a_BKA)), []
        for number, member in zip(range(count), self._networks):
            own = slice(number, None, count)
            seen = window.map(lambda values: values[own])  # noqa: B023
            meant = Meaning(meaning.step_BTF[own], meaning.effort_BSG[own])
            parts.append(member.decode(member.encode(seen, past_BKA[own]), seen, meant, asked)[1])
        order_B = torch.cat([torch.arange(number, len(a_BKA), count) for number in range(count)]).argsort()
        together = cast(Mixture, Mixture.concatenate(parts))
        return self._widened(together[order_B.to(a_BKA.device)], plan.horizons)

    def disagreement(self, context: SensorContext, plan: Plan) -> Tensor:
        """Standard deviation (B, H, C) of the members' means, in z-units; zero for a single member."""
        return _apart(self.members_say(context, plan))

    def representation(self, batch: WindowBatch) -> Tensor:
        """The mean of the first member's tokens, absent sensors left out."""
        self.check(batch)
        rows = self.read(batch.x_BKC, batch.m_BKC, self.level(batch.x_BKC, batch.m_BKC))
        context = self.context(rows, batch.a_BKA)
        token_BND, present_BC = context.tokens_BND[0], context.window.present_BC
        commands = present_BC.new_ones(len(present_BC), token_BND.shape[1] - present_BC.shape[1])
        share_BN = torch.cat([present_BC, commands], 1).to(token_BND.dtype)
        return (token_BND * (share_BN / share_BN.sum(1, keepdim=True)).unsqueeze(-1)).sum(1)

    def worth_reading(self, present_C: Tensor) -> None:  # noqa: ARG002
        """All of them: an absent sensor costs next to nothing here."""
        return

    @property
    def _networks(self) -> Iterable[SensorNetwork]:
        return cast(Iterable[SensorNetwork], self.members)

    def _meant(self, a_BKA: Tensor, plan: Plan) -> Meaning:
        """What past and plan mean; steps behind the last horizon asked for are nobody's business."""
        meaning: Meaning = self.meaning(a_BKA, plan.future_a_BTA[:, : max(plan.horizons)])
        return meaning

    def _asked(self, horizons: tuple[int, ...]) -> AskedHorizons:
        """Where the planned steps of the horizons lie; those not trained are placed between those that were."""
        if horizons == self.horizons:
            return AskedHorizons(horizons, self.step_H, None)
        check_between(horizons, self.horizons)
        step_H = torch.tensor(horizons, device=self.step_H.device) - 1
        weights = [interpolation(horizon, self.horizons) for horizon in horizons]
        return AskedHorizons(horizons, step_H, self.widening_H.new_tensor(weights))

    def _widened(self, said: Mixture, horizons: tuple[int, ...]) -> Mixture:
        weight_HH = self._asked(horizons).weight_HH
        widening_H = self.widening_H if weight_HH is None else weight_HH @ self.widening_H
        return replace(said, scale_M=said.scale_M * widening_H[:, None, None])


def _apart(said: list[tuple[Tensor, Mixture]]) -> Tensor:
    mean_EBHC = torch.stack([mixture.mean for _, mixture in said])
    return mean_EBHC.std(0, correction=0)
