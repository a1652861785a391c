"""How many floating-point operations a training step takes; products of matrices only, which are nearly all of them."""

from crossfeed.model.config import JepaConfig
from crossfeed.training.run_config import RunConfig


def step_flops(config: RunConfig, sensors: int, commands: int, share: float = 1.0) -> float:
    """Forward, backward (twice the forward) and the teacher's forward of one batch in the pretraining stage.

    `share` is the part of the context's tokens that is computed: less than 1 when absent ones are left out.
    """
    model, batch = config.model, config.training.batch_size
    views = 2 if "schema" in config.objectives.active("pretrain") else 1
    student = _encoder(model, views * batch * model.context, sensors, share, model.context, commands)
    teacher = _encoder(model, batch * len(model.horizons), sensors, 1.0, len(model.horizons), commands)
    return 3.0 * (student + _predictor(model, views * batch, commands)) + teacher


def _encoder(model: JepaConfig, rows: float, sensors: int, share: float, context: int, commands: int) -> float:
    width, tokens = model.blocks.width, rows * sensors * share
    first = tokens * (model.encoder.channel_layers * _block(model, sensors * share) + 2.0 * (width + width**2))
    second = rows * (model.encoder.temporal_layers * _block(model, context) + 2.0 * commands * width)
    return first + second


def _predictor(model: JepaConfig, windows: float, commands: int) -> float:
    width, slots = model.blocks.width, len(model.horizons)
    read = 0.0
    if model.predictor.injection == "cross_attention":
        keys = model.horizons[-1] if model.predictor.conditioning == "sequence" else slots
        read = slots * (4.0 * width**2 + 4.0 * keys * width) + keys * 4.0 * width**2
    layer = slots * _block(model, slots) + read
    return windows * (model.predictor.layers * layer + 2.0 * width**2 + 2.0 * slots * commands * width)


def _block(model: JepaConfig, keys: float) -> float:
    """One token through one block: four projections, attention over `keys`, the feed-forward layer."""
    width = model.blocks.width
    return 2.0 * width**2 * (4 + 2 * model.blocks.expansion) + 4.0 * keys * width
