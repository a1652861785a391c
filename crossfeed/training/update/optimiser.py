"""AdamW over exactly the parameters a stage trains, each in one group: decayed or not."""

from torch import Tensor, nn

from crossfeed.model.sensors.members import MemberLinear
from crossfeed.model.sensors.model import SensorModel
from crossfeed.training.config import TrainingConfig
from crossfeed.training.initialise import BODY, FRESH
from crossfeed.training.update.adamw import AdamW

# The teacher follows by moving average; the physical head has no target while pretraining and is left alone.
TRAINED: dict[str, tuple[str, ...]] = {
    "pretrain": (*BODY, "recovery"),
    "finetune": (*BODY, *FRESH),
}


def trained_parameters(model: nn.Module, stage: str) -> dict[str, nn.Parameter]:
    """The parameters a stage moves, by name: all of a sensor network, the stage's own parts of the paper's."""
    if isinstance(model, SensorModel):
        return dict(model.named_parameters())
    return {name: parameter for name, parameter in model.named_parameters() if name.partition(".")[0] in TRAINED[stage]}


def parameter_groups(model: nn.Module, stage: str, decay_everything: bool) -> dict[str, dict[str, nn.Parameter]]:
    """Which trained parameters are decayed and which are not; only weights of linear maps are, unless all are."""
    linear = {
        f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear | MemberLinear)
    }
    groups: dict[str, dict[str, nn.Parameter]] = {"decayed": {}, "plain": {}}
    for name, parameter in trained_parameters(model, stage).items():
        groups["decayed" if decay_everything or name in linear else "plain"][name] = parameter
    return groups


def build_optimiser(model: nn.Module, stage: str, config: TrainingConfig, learning_rate: Tensor) -> AdamW:
    """AdamW whose learning rate is a tensor on the device, so that the step can change it without the host."""
    groups = parameter_groups(model, stage, config.decay_everything)
    decay = {"decayed": config.weight_decay, "plain": 0.0}
    return AdamW([(list(part.values()), decay[kind]) for kind, part in groups.items() if part], learning_rate)
