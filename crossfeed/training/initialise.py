"""The three matched ways to start the second stage, with an exact account of every tensor."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from crossfeed.errors import CheckpointError
from crossfeed.model.world_model import WorldModel
from crossfeed.training.config import Initialisation


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Which tensors came from the pretrained weights, which kept their fresh values, which were not wanted."""

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


@torch.no_grad()
def initialise(model: WorldModel, pretrained: Mapping[str, Tensor], how: Initialisation) -> LoadReport:
    """Fill a freshly drawn model from pretrained weights; anything that is not as planned is an error.

    scratch: nothing is loaded. body_fresh_head: all but the physical and the recovery head. complete_checkpoint: all.
    """
    own = model.state_dict()
    wanted = {
        "scratch": [],
        "body_fresh_head": [name for name in own if name.partition(".")[0] not in model.fresh_heads],
        "complete_checkpoint": list(own),
    }[how]
    lacking = [name for name in wanted if name not in pretrained]
    other_shape = [name for name in wanted if name in pretrained and pretrained[name].shape != own[name].shape]
    foreign = [name for name in pretrained if name not in own]
    if lacking or other_shape or foreign:
        problems = {"missing": lacking, "of another shape": other_shape, "unknown to the model": foreign}
        raise CheckpointError(
            "The pretrained weights do not fit: "
            + "; ".join(f"{what}: {', '.join(names)}" for what, names in problems.items() if names)
            + ".",
            expected="weights of a model with the same configuration and schema",
            remedy="Pretrain with this configuration, or set training.initialisation=scratch.",
        )
    for name in wanted:
        own[name].copy_(pretrained[name])
    return LoadReport(
        loaded=tuple(wanted),
        missing=tuple(name for name in own if name not in wanted),
        unexpected=tuple(name for name in pretrained if name not in wanted),
    )
