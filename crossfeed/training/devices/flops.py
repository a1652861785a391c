"""How many floating-point operations a training step takes; products of matrices only, which are nearly all of them."""

from crossfeed.model.jepa.config import JepaConfig
from crossfeed.model.sensors.config import SensorConfig
from crossfeed.training.run_config import RunConfig


def step_flops(config: RunConfig, sensors: int, commands: int, share: float = 1.0) -> float:
    """Forward and backward (twice the forward) of one batch in the first stage, and the teacher's forward if any.

    `share` is the part of the context's tokens that is computed: less than 1 when absent ones are left out.
    """
    model, batch = config.model, config.training.batch_size
    if isinstance(model, SensorConfig):
        return 3.0 * batch * model.members * _sensor_network(model, sensors, commands)
    views = 2 if "schema" in config.latents.active("pretrain") else 1
    student = _encoder(model, views * batch * model.context, sensors, share, model.context, commands)
    teacher = _encoder(model, batch * len(model.horizons), sensors, 1.0, len(model.horizons), commands)
    return 3.0 * (student + _predictor(model, views * batch, commands)) + teacher


def _sensor_network(model: SensorConfig, sensors: int, commands: int) -> float:
    """One window forward: tokens read each other, queries read tokens and planned steps.

    The perceptrons that make tokens have a hidden layer of twice the width. What depends on how many features the
    commands have is left out: it is a few hundredths.
    """
    width, context, steps = model.width, model.context, model.horizons[-1]
    tokens, queries, memory = sensors + commands, len(model.horizons) * sensors, sensors + commands + steps
    made = 4.0 * width * (sensors * (2 * context + 3) + commands * 2 * context + memory * width)
    encoder = tokens * (2.0 * width**2 * (4 + 2 * 4) + 4.0 * tokens * width)
    decoder = queries * (2.0 * width**2 * (2 + 2 * 2) + 4.0 * memory * width) + memory * 4.0 * width**2
    return made + model.encoder_layers * encoder + model.decoder_layers * decoder


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
