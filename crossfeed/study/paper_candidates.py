"""The twenty candidates of the paper (Appendices A and B), each a short function of the preset's configuration.

Values are those of the paper's configuration matrix, errors of its code included: heavy channel masking masks no more
than usual, and robust normalisation has no floor. What a preset itself decides (instance normalisation, likelihood,
mean or step-by-step commands, ...) stays as the preset has it.
"""

from typing import Any

from crossfeed.configuration import override
from crossfeed.study.candidates import Candidate, named
from crossfeed.training.run_config import RunConfig


def plain_control(base: RunConfig) -> RunConfig:
    """No anti-collapse term, no auxiliary terms."""
    return _set(_mixed(_token(base)), vicreg=0.0, schema=0.0, recovery=0.0)


def per_horizon_vicreg(base: RunConfig) -> RunConfig:
    """VICReg at every horizon, no auxiliary terms."""
    return _set(_mixed(_token(base)), schema=0.0, recovery=0.0)


def schema_consistency(base: RunConfig) -> RunConfig:
    """Whole-channel masking with latent schema consistency."""
    return _set(_token(base), recovery=0.0)


def schema_and_command_recovery(base: RunConfig) -> RunConfig:
    """Schema consistency and command recovery: the configuration the paper locked."""
    return _token(base)


def film_command(base: RunConfig) -> RunConfig:
    """Commands modulate the state feature by feature."""
    return _mixed(_change(base, {"model.predictor.injection": "film"}))


def cross_attention_command(base: RunConfig) -> RunConfig:
    """Slots read the commands by attention; the reference of the candidates below."""
    return _mixed(_change(base, {"model.predictor.injection": "cross_attention"}))


def event_masking(base: RunConfig) -> RunConfig:
    """Samples with large steps are hidden."""
    return _change(cross_attention_command(base), {"masks.mode": "event"})


def heavy_channel_masking(base: RunConfig) -> RunConfig:
    """Whole channels hidden, schema weight doubled; no heavier than others, since their code ignored the ratio."""
    heavy = {"masks.mode": "channel", "masks.channel_drop": 0.15}
    return _set(_change(cross_attention_command(base), heavy), schema=0.2)


def light_mixed_masking(base: RunConfig) -> RunConfig:
    """Mixed masking at a fifth instead of a third."""
    return _change(cross_attention_command(base), {"masks.ratio": 0.2})


def latent_layer_norm(base: RunConfig) -> RunConfig:
    """Latents are layer-normed before they are compared."""
    return _change(cross_attention_command(base), {"objectives.latent_layer_norm": True})


def pooled_vicreg(base: RunConfig) -> RunConfig:
    """VICReg and the latent target over the mean of the horizons."""
    pooled = {"objectives.regularise": "pooled", "objectives.latent_target": "pooled"}
    return _change(cross_attention_command(base), pooled)


def low_latent_weight(base: RunConfig) -> RunConfig:
    """Half the latent weight."""
    return _set(cross_attention_command(base), latent=0.5)


def high_latent_weight(base: RunConfig) -> RunConfig:
    """Twice the latent weight."""
    return _set(cross_attention_command(base), latent=2.0)


def scheduled_ema(base: RunConfig) -> RunConfig:
    """The teacher slows down from 0.99 to 0.9999."""
    schedule = {"training.ema_momentum": 0.99, "training.ema_final_momentum": 0.9999}
    return _change(cross_attention_command(base), schedule)


def robust_normalisation(base: RunConfig) -> RunConfig:
    """Median and interquartile range without a floor, which shows the paper's pathology."""
    return _change(scheduled_ema(base), {"data.normaliser": "robust", "data.robust_floor": 0.0})


def compact_model(base: RunConfig) -> RunConfig:
    """Half the width, two thirds of the layers."""
    return _resized(scheduled_ema(base), width=0.5, heads=0.5, layers=4 / 6, predictor=0.5)


def medium_wide_model(base: RunConfig) -> RunConfig:
    """One and a half times the width."""
    return _resized(scheduled_ema(base), width=1.5, heads=1.0, layers=1.0, predictor=1.0)


def large_model(base: RunConfig) -> RunConfig:
    """Twice the width, a third more layers."""
    return _resized(scheduled_ema(base), width=2.0, heads=1.0, layers=8 / 6, predictor=1.5)


def loaded_head_control(base: RunConfig) -> RunConfig:
    """The complete pretrained checkpoint is taken over, untrained head included."""
    return _change(scheduled_ema(base), {"training.initialisation": "complete_checkpoint"})


def full_candidate(base: RunConfig) -> RunConfig:
    """Everything at once: wider, robust normalisation, stronger auxiliary terms, scheduled teacher."""
    wide = _resized(robust_normalisation(base), width=1.5, heads=1.0, layers=1.0, predictor=1.0)
    return _set(wide, schema=0.2, recovery=0.1)


PAPER_CANDIDATES: tuple[Candidate, ...] = (
    plain_control,
    per_horizon_vicreg,
    schema_consistency,
    schema_and_command_recovery,
    film_command,
    cross_attention_command,
    event_masking,
    heavy_channel_masking,
    light_mixed_masking,
    latent_layer_norm,
    pooled_vicreg,
    low_latent_weight,
    high_latent_weight,
    scheduled_ema,
    robust_normalisation,
    compact_model,
    medium_wide_model,
    large_model,
    loaded_head_control,
    full_candidate,
)


def _change(base: RunConfig, settings: dict[str, Any]) -> RunConfig:
    return override(base, settings, "A candidate")


def _set(base: RunConfig, **weights: float) -> RunConfig:
    return _change(base, {f"objectives.weights.{name}": weight for name, weight in weights.items()})


def the_twenty(base: RunConfig) -> dict[str, RunConfig]:
    """All of them, as variants of a configuration that has the paper's network."""
    _ = base.jepa
    return named(PAPER_CANDIDATES, base)


def _token(base: RunConfig) -> RunConfig:
    return _change(base, {"model.predictor.injection": "token"})


def _mixed(base: RunConfig) -> RunConfig:
    return _change(base, {"masks.mode": "mixed", "masks.ratio": 0.35})


def _resized(base: RunConfig, width: float, heads: float, layers: float, predictor: float) -> RunConfig:
    """Scale the preset's size; from `base` this gives exactly the paper's compact, medium and large models."""
    blocks, encoder, own = base.jepa.blocks, base.jepa.encoder, base.jepa.predictor
    return _change(
        base,
        {
            "model.blocks.width": round(blocks.width * width),
            "model.blocks.heads": max(1, round(blocks.heads * heads)),
            "model.encoder.temporal_layers": max(1, round(encoder.temporal_layers * layers)),
            "model.predictor.layers": max(1, round(own.layers * predictor)),
        },
    )
