"""A network of many machines reads one that is commanded by more: its weights grow, and say what they said.

Past commands are tokens that are known by quantity and place, so any number of them fits. What depends on the number
are the features of planned steps, which enter two linear maps, and the exponents by which forecasts follow a change of
commands. Features that are new begin with columns of zeros; exponents that are new begin faint and the same everywhere.

A commands, G groups of commands, F features of a planned step, V moving components of a forecast.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from crossfeed.model.sensors.commands import OF_EACH_COMMAND, OF_EACH_GROUP
from crossfeed.model.sensors.config import SensorConfig
from crossfeed.model.sensors.head import FAINT, STEEPEST, USUAL
from crossfeed.schema import Schema

_STEP, _NEAR = "network.step.0.weight", "network.near.weight"
_HEAD = ("network.head.linear.weight", "network.head.linear.bias")
# From the exponent that a moving component starts with to the one with which what stands starts.
_FAINTER = torch.tensor([USUAL, FAINT]).div(STEEPEST).logit().diff().item()


def with_further_commands(
    tensors: Mapping[str, Tensor], config: SensorConfig, known: Schema, wanted: Schema
) -> dict[str, Tensor]:
    """Weights for the commands of `wanted`, of which the first are those of `known` in their order."""
    if len(wanted.commands) == len(known.commands):
        return dict(tensors)
    group_of = _group_places(known, wanted)
    commands, groups = (len(wanted.commands), len(wanted.command_groups))
    column_F = _columns(range(len(known.commands)), commands, OF_EACH_COMMAND)
    column_F += [OF_EACH_COMMAND * commands + column for column in _columns(group_of, groups, OF_EACH_GROUP)]
    features = OF_EACH_COMMAND * commands + OF_EACH_GROUP * groups
    wider = dict(tensors)
    wider[_STEP] = _spread(tensors[_STEP], column_F, features)
    # The step itself, the one before it and the mean of all up to it, side by side.
    wider[_NEAR] = torch.cat([_spread(part, column_F, features) for part in tensors[_NEAR].chunk(3, -1)], -1)
    weight, bias = (tensors[name] for name in _HEAD)
    wider[_HEAD[0]] = _with_exponents(weight.transpose(-1, -2), config.movers, group_of, groups).transpose(-1, -2)
    wider[_HEAD[1]] = _with_exponents(bias, config.movers, group_of, groups, _FAINTER)
    return {name: tensor.contiguous() for name, tensor in wider.items()}


def _group_places(known: Schema, wanted: Schema) -> list[int]:
    """Where each known group of commands stands among the wanted ones."""
    return [
        next(place for place, members in enumerate(wanted.command_groups) if group[0] in members)
        for group in known.command_groups
    ]


def _columns(places: range | list[int], count: int, blocks: int) -> list[int]:
    """Where these lie in so many blocks of `count` columns."""
    return [block * count + place for block in range(blocks) for place in places]


def _spread(weight: Tensor, columns: list[int], count: int) -> Tensor:
    """The columns at their new places, zeros between them."""
    wider = weight.new_zeros(*weight.shape[:-1], count)
    wider[..., columns] = weight
    return wider


def _with_exponents(outputs: Tensor, movers: int, places: list[int], groups: int, movers_begin: float = 0.0) -> Tensor:
    """Outputs of the head along the last axis, the exponents, which come last, with those of new groups between them.

    There is one for what stands and one for each of the movers, for every group.
    """
    held = (movers + 1) * len(places)
    others, exponents = torch.split(outputs, [outputs.shape[-1] - held, held], -1)
    wider = outputs.new_zeros(*outputs.shape[:-1], movers + 1, groups)
    wider[..., 1:, :] = movers_begin
    wider[..., places] = torch.unflatten(exponents, -1, (movers + 1, len(places)))
    return torch.cat([others, wider.flatten(-2)], -1)
