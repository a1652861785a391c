"""The world model of the `crossfeed` preset: one or several sensor networks over the same windows.

E members, B windows, K context rows, H horizons, C sensors, A commands, N tokens, D width.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from crossfeed.model.config import ForecastObjectiveConfig, SensorConfig
from crossfeed.model.delayed_plans import delayed_steps, plans_by_delay, slot_and_delay
from crossfeed.model.distribution import Distribution, Mixture
from crossfeed.model.interface import Losses, PackedPrecision, Plan, Prediction, ProcessGroup, Rows, Stage, Views
from crossfeed.model.parts.instance_norm import InstanceNorm, InstanceNormConfig, Statistics
from crossfeed.model.sensors.commands import CommandFeatures, PlanFeatures
from crossfeed.model.sensors.members import member_norm
from crossfeed.model.sensors.network import (
    AskedHorizons,
    ReadBlock,
    SensorNetwork,
    SensorWindow,
    commands_near,
)
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import QUANTITIES, Schema
from crossfeed.windows.corrupt import MaskConfig, corrupt
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, present_mean


@dataclass(frozen=True, slots=True)
class SensorContext:
    """The tokens of every member, the window they were made from and the commands that led to it."""

    token_EBND: Tensor
    window: SensorWindow
    a_BKA: Tensor


class SensorModel(WorldModel):
    """Members that differ in their start alone; what they say is pooled, what they disagree on is not known."""

    config: SensorConfig
    # Which parameters each way of adapting may move.
    adaptation_parts = {
        "head": ("network.head.",),
        "predictor": tuple(
            f"network.{part}" for part in ("decoder.", "near.", "step.", "step_place", "horizon", "head.")
        ),
        "channels": ("network.sensors.",),
    }
    variance_inflation_H: Tensor
    step_H: Tensor

    def __init__(self, config: SensorConfig, schema: Schema, normaliser: Normaliser) -> None:
        if config.quantities is None:
            config = config.model_copy(update={"quantities": tuple(QUANTITIES)})
        super().__init__(config, schema, normaliser)
        self._centring = InstanceNorm(InstanceNormConfig(kind="centred"))
        self.command_features = CommandFeatures(schema, normaliser, config.context, config.horizons[-1])
        self.network = SensorNetwork(config, schema, normaliser, self.command_features)
        # Both are fitted once, after training, on source validation.
        self.register_buffer("variance_inflation_H", torch.ones(len(config.horizons)))
        self.register_buffer("disagreement_threshold", torch.zeros(()))
        self.register_buffer("step_H", torch.tensor(config.horizons) - 1, persistent=False)

    def level(self, x_BKC: Tensor, m_BKC: Tensor) -> Statistics:
        """The mean of each sensor in the window."""
        level = self._centring.statistics(x_BKC, m_BKC)
        assert level is not None
        return level

    def read(self, x_BRC: Tensor, m_BRC: Tensor, level: Statistics | None, channels: Tensor | None = None) -> Rows:
        """Rows are kept as they are; what they mean depends on the window they are in."""
        return Rows((x_BRC, m_BRC), level, channels)

    def context(self, rows: Rows, a_BKA: Tensor, pooled: bool = False) -> SensorContext:  # noqa: ARG002
        """The tokens of every member, of the sensors that are worth reading."""
        window = SensorWindow.of(rows)
        window = window if rows.channels is None else window.only(rows.channels)
        return SensorContext(self.network.encode(window, self.command_features.from_zero(a_BKA)), window, a_BKA)

    def decode(self, context: SensorContext, plan: Plan) -> Prediction:
        """What the members say together."""
        query_EBHCD, mixture = self.member_mixtures(context, plan)
        channels = context.window.channels
        together = self._of_all_sensors(self._widened(mixture.pooled(), self._slots(plan.horizons)), channels)
        return Prediction(query_EBHCD[0].mean(2), together, context, self._member_means(mixture, channels))

    def member_mixtures(self, context: SensorContext, plan: Plan) -> tuple[Tensor, Mixture]:
        """Queries (E, B, H, C, D) and mixtures (E, B, H, C) of members before they are widened; C are those read."""
        if plan.horizons == self.horizons:
            return self._trained_mixtures(context, plan)
        now_B1A, order, queries, mixtures = context.a_BKA[:, -1:], [], [], []
        for rows, waiting in plans_by_delay(now_B1A, plan.future_a_BTA, plan.horizons, self.horizons):
            order += rows
            query_EBHCD, mixture = self._trained_mixtures(context, waiting)
            queries.append(query_EBHCD)
            mixtures.append(mixture)
        back_H = torch.tensor(order, device=now_B1A.device).argsort()
        joined = cast(Mixture, Mixture.concatenate(mixtures, 2))
        return torch.cat(queries, 2)[:, :, back_H], joined[:, :, back_H]

    def _trained_mixtures(self, context: SensorContext, plan: Plan) -> tuple[Tensor, Mixture]:
        """The same for horizons that were trained."""
        slot_H = self._slots(plan.horizons)
        asked = AskedHorizons(slot_H, self.step_H if slot_H is None else self.step_H[slot_H])
        # No query reads steps behind the last horizon that is asked for.
        features = self.command_features(context.a_BKA, plan.future_a_BTA[:, : max(plan.horizons)])
        return self.network.decode(context.token_EBND, context.window, features, asked)

    @property
    def members(self) -> int:
        """As many as the configuration says."""
        return self.config.members

    def member(self, number: int) -> "SensorModel":
        """The member of this number as a model of its own; widened as all of them together were."""
        own = {
            name: tensor[number : number + 1] if name.startswith("network.") else tensor
            for name, tensor in self.state_dict().items()
        }
        alone = SensorModel(self.config.model_copy(update={"members": 1}), self.schema, self.normaliser)
        alone.to(device=self.step_H.device, dtype=self.variance_inflation_H.dtype).load_state_dict(own)
        return alone.eval()

    def decode_paths(self, rows: Rows, a_KA: Tensor, future_TA: Tensor, channels: Tensor) -> Distribution:
        """As `decode_rows`, with all that the paths share computed once."""
        slot_R, place_RT = (part.to(a_KA.device) for part in delayed_steps(len(future_TA), self.horizons))
        future_RTA = torch.cat([a_KA[-1:], future_TA])[place_RT]
        features: PlanFeatures = self.command_features(a_KA.expand(len(slot_R), -1, -1), future_RTA)
        window, past_1KA = SensorWindow.of(rows).only(channels), self.command_features.from_zero(a_KA).unsqueeze(0)
        mixture = _decode_paths(self.network, window, past_1KA, features, AskedHorizons(slot_R, self.step_H[slot_R]))
        return self._widened(mixture.pooled(), slot_R)

    def views(
        self,
        measured: WindowBatch,
        changed: WindowBatch,
        gain_B1C: Tensor,
        masks: MaskConfig,
        objectives: ForecastObjectiveConfig,  # noqa: ARG002
        generator: torch.Generator,
    ) -> tuple[WindowBatch, Views]:
        """A part of what the changed windows show; errors count in units of the machine that was measured."""
        m_BKC = corrupt(changed.x_BKC, measured.m_BKC, masks, generator)
        # Nobody can know how another machine would show a sensor that is hidden: it is judged as it was measured.
        shown_B1C = m_BKC.any(1, keepdim=True)
        future_x_BHC = torch.where(shown_B1C, changed.future_x_BHC, measured.future_x_BHC)
        gain_B1C = torch.where(shown_B1C, gain_B1C, 1.0)
        return replace(changed, future_x_BHC=future_x_BHC), Views(m_BKC, None, gain_B1C)

    def losses(
        self,
        batch: WindowBatch,
        views: Views,
        stage: Stage,
        objectives: ForecastObjectiveConfig,
        group: ProcessGroup | None = None,
    ) -> Losses:
        """CRPS and squared error, averaged over members and present targets, of what the members are shown."""
        own, shown = (batch, views) if group is None else (group.part(batch), group.part(views))
        self.check(own)
        context = self.encode(own.x_BKC, shown.m_BKC, own.a_BKA)
        present_BHC, gain_B1C = own.future_m_BHC, 1.0 if shown.gain_B1C is None else shown.gain_B1C
        x_BHC = torch.where(present_BHC, own.future_x_BHC, 0.0)
        _, mixture = self.member_mixtures(context, Plan.of(own, self.horizons))
        errors: dict[str, Callable[[], Tensor]] = {
            "crps": lambda: mixture.crps(x_BHC) / gain_B1C,
            "squared": lambda: ((mixture.mean - x_BHC) / gain_B1C).square(),
        }
        # Every member is judged for itself, and all of them over the same targets.
        terms = {name: present_mean(errors[name]().mean(0), present_BHC) for name in objectives.active(stage)}
        if group is not None:
            # Means over present targets: a process that has more of them counts for more.
            share = group.size * present_BHC.sum() / batch.future_m_BHC.sum().clamp(min=1)
            terms = {name: share * term for name, term in terms.items()}
        return Losses(terms)

    def representation(self, batch: WindowBatch) -> Tensor:
        """The mean of the first member's tokens, absent sensors left out."""
        self.check(batch)
        context = self.encode(batch.x_BKC, batch.m_BKC, batch.a_BKA)
        token_BND: Tensor = context.token_EBND[0]
        share_BN = self.network.present(context.window).to(token_BND.dtype)
        return (token_BND * (share_BN / share_BN.sum(1, keepdim=True)).unsqueeze(-1)).sum(1)

    def packed_parts(self, precision: PackedPrecision) -> tuple[nn.Module, ...]:
        """In float32 its products are as quick as they are."""
        return (self.network,) if precision == "bfloat16" else ()

    def channels_to_read(self, present_C: Tensor, absent_too: bool = True) -> Tensor | None:
        """Those that are present, unless absent ones are to be forecast: each costs a token and a query a horizon."""
        if absent_too or bool(present_C.all()) or not bool(present_C.any()):
            return None
        return present_C.nonzero().squeeze(1)

    def _slots(self, horizons: tuple[int, ...]) -> Tensor | None:
        """Where the trained horizon that answers for each of these stands among all of them; None for all of them."""
        if horizons == self.horizons:
            return None
        return torch.tensor([slot_and_delay(row, self.horizons).slot for row in horizons], device=self.step_H.device)

    def _member_means(self, mixture: Mixture, channels: Tensor | None) -> Tensor:
        """What each member expects (E, B, H, C) of all sensors; all agree on the mean of one that was not read."""
        mean_EBHC = mixture.mean
        if channels is None:
            return mean_EBHC
        whole_EBHC = mean_EBHC.new_zeros(*mean_EBHC.shape[:-1], len(self.schema.sensors))
        return whole_EBHC.index_copy(-1, channels, mean_EBHC)

    def _of_all_sensors(self, mixture: Mixture, channels: Tensor | None) -> Mixture:
        """The forecast of all sensors; one that was not read is expected at its mean, as far off as it ever was."""
        if channels is None:
            return mixture
        shape = (*mixture.shape[:2], len(self.schema.sensors), mixture.mean_M.shape[-1])
        begin = (mixture.mean_M.new_zeros(shape), mixture.mean_M.new_zeros(shape), mixture.mean_M.new_ones(shape))
        parts = (mixture.log_weight_M, mixture.mean_M, mixture.scale_M)
        return Mixture(*(whole.index_copy(2, channels, part) for whole, part in zip(begin, parts, strict=True)))

    def _widened(self, mixture: Mixture, slot_H: Tensor | None) -> Mixture:
        """As much wider as source validation asked for at the trained horizon that answers."""
        factor_H = self.variance_inflation_H if slot_H is None else self.variance_inflation_H[slot_H]
        return replace(mixture, scale_M=mixture.scale_M * factor_H[:, None, None])


def _decode_paths(
    network: SensorNetwork, window: SensorWindow, past_1KA: Tensor, features: PlanFeatures, asked: AskedHorizons
) -> Mixture:
    """What the members say (E, B, R, C) of every row that follows each window; what paths share is computed once.

    `features` are of the R delayed plans.
    """
    batch, sensors = window.present_BC.shape
    token_EBND = network.encode(window, past_1KA.expand(batch, -1, -1))
    rows, steps = features.step_BTF.shape[:2]
    step_ERTD = network.step(network.for_members(features.step_BTF)) + network.step_place[:, None, :steps]
    assert asked.slot_H is not None
    row_R = torch.arange(rows, device=asked.step_H.device)
    near_RF = commands_near(features.step_BTF, asked.step_H)[row_R, row_R]  # every row has a plan of its own
    start_ERD = network.horizon.index_select(1, asked.slot_H) + network.near(network.for_members(near_RF))
    query_EBRCD = token_EBND[:, :, None, :sensors] + start_ERD[:, None, :, None]
    known_B11N = network.present(window)[:, None, None]
    planned_RT = torch.arange(steps, device=asked.step_H.device) <= asked.step_H.unsqueeze(1)
    for layer in cast(Iterable[ReadBlock], network.decoder):
        query_EBRCD = _read(layer, query_EBRCD, token_EBND, known_B11N, step_ERTD, planned_RT[:, None, None])
    effort_RSG, context = features.effort_BSG, network.config.context
    # The commands until now are those of every row; after them stands, for each row, what it is driven by itself.
    effort_1SG = torch.cat([effort_RSG[:1, :context], effort_RSG[row_R, context + asked.step_H].unsqueeze(0)], 1)
    mixture: Mixture = network.head(
        member_norm(query_EBRCD), window.centre_BC, window.last_BC, effort_1SG, row_R, window.channels
    )
    return mixture


def _read(
    layer: ReadBlock,
    query_EBRCD: Tensor,
    token_EBND: Tensor,
    known_B11N: Tensor,
    step_ERTD: Tensor,
    planned_R11T: Tensor,
) -> Tensor:
    """A block of the decoder: attention to the own tokens and to the steps of the own row, with one softmax."""
    attention, (members, batch, rows, sensors, width) = layer.attention, query_EBRCD.shape
    heads, each = attention.heads, width // attention.heads
    query = attention.query(member_norm(query_EBRCD)).unflatten(-1, (heads, each)) * each**-0.5
    key_EBJIN, value_EBJNI = _keys_and_values(attention.key_value(token_EBND), heads)
    key_ERJIT, value_ERJTI = _keys_and_values(attention.key_value(step_ERTD), heads)
    to_tokens = query.permute(0, 1, 4, 2, 3, 5).reshape(members, batch, heads, rows * sensors, each) @ key_EBJIN
    to_steps = query.permute(0, 2, 4, 1, 3, 5).reshape(members, rows, heads, batch * sensors, each) @ key_ERJIT
    lowest = torch.finfo(query.dtype).min
    to_tokens = to_tokens.masked_fill_(~known_B11N, lowest).view(members, batch, heads, rows, sensors, -1)
    to_steps = to_steps.masked_fill_(~planned_R11T, lowest).view(members, rows, heads, batch, sensors, -1)
    weight = torch.cat([to_tokens, to_steps.permute(0, 3, 2, 1, 4, 5)], -1).softmax(-1)
    own, planned = torch.split(weight, [to_tokens.shape[-1], to_steps.shape[-1]], -1)
    from_tokens = own.reshape(members, batch, heads, rows * sensors, -1) @ value_EBJNI
    from_steps = planned.permute(0, 3, 2, 1, 4, 5).reshape(members, rows, heads, batch * sensors, -1) @ value_ERJTI
    read = from_tokens.view(members, batch, heads, rows, sensors, each).permute(0, 1, 3, 4, 2, 5)
    read = read + from_steps.view(members, rows, heads, batch, sensors, each).permute(0, 3, 1, 4, 2, 5)
    query_EBRCD = query_EBRCD + attention.out(read.reshape(members, batch, rows, sensors, width))
    forward_EBRCD: Tensor = layer.feed_forward(member_norm(query_EBRCD))
    return query_EBRCD + forward_EBRCD


def _keys_and_values(key_value: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """The two halves by heads, keys turned for the product with queries."""
    key, value = torch.unflatten(key_value, -1, (2, heads, -1)).unbind(3)
    return key.permute(0, 1, 3, 4, 2), value.transpose(2, 3)
