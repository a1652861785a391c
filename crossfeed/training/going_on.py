"""A run that goes on from a model of many machines: the same network, machines in their own frames, smaller steps."""

from crossfeed.model.model_file import ModelFile
from crossfeed.training.run_config import RunConfig

GENTLER = 0.3  # times the usual learning rate: what is known already is to be kept


def going_on(config: RunConfig, body: ModelFile) -> RunConfig:
    """The configuration as asked, with everything taken over that the weights depend on; one that has it, as it is."""
    if config.training.initialisation == "complete_checkpoint" and config.model == body.config:
        return config
    training = config.training.model_copy(
        update={
            "pretrain_epochs": 0,
            "initialisation": "complete_checkpoint",
            "learning_rate": GENTLER * config.training.learning_rate,
        }
    )
    data = config.data.model_copy(update={"normaliser": "frame"})
    return RunConfig.model_validate(
        {**config.model_dump(), "model": body.config, "training": training, "data": data},
    )
