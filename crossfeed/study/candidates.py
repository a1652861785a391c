"""The twenty candidates of the paper (Appendices A and B), each a short function of the preset's configuration.

Values are those of the paper's configuration matrix. What a preset itself decides (instance normalisation, likelihood,
mean or step-by-step commands, ...) stays as the preset has it, so that the same twenty are searched in both. Two
candidates mean more in the `mended` preset, because the paper's code did not do what their names say: heavy channel
masking really masks more (the authors' code ignored the ratio), and robust normalisation has a floor.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from crossfeed.errors import ConfigError
from crossfeed.training.overrides import leaves, override
from crossfeed.training.run_config import RunConfig

Candidate = Callable[[RunConfig], RunConfig]


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
    """Whole channels hidden, schema weight doubled; half of the channels where the preset is not the paper's."""
    drop = 0.15 if _is_paper(base) else 0.5
    heavy = {"masks.mode": "channel", "masks.channel_drop": drop}
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
    """Median and interquartile range; without a floor in the paper's preset, where it shows the paper's pathology."""
    floor = 0.0 if _is_paper(base) else base.data.robust_floor
    return _change(scheduled_ema(base), {"data.normaliser": "robust", "data.robust_floor": floor})


def compact_model(base: RunConfig) -> RunConfig:
    """Half the width, two thirds of the layers."""
    return _resized(scheduled_ema(base), width=0.5, heads=0.5, layers=4 / 6, predictor_layers=0.5)


def medium_wide_model(base: RunConfig) -> RunConfig:
    """One and a half times the width."""
    return _resized(scheduled_ema(base), width=1.5, heads=1.0, layers=1.0, predictor_layers=1.0)


def large_model(base: RunConfig) -> RunConfig:
    """Twice the width, a third more layers."""
    return _resized(scheduled_ema(base), width=2.0, heads=1.0, layers=8 / 6, predictor_layers=1.5)


def loaded_head_control(base: RunConfig) -> RunConfig:
    """The complete pretrained checkpoint is taken over, untrained head included."""
    return _change(scheduled_ema(base), {"training.initialisation": "complete_checkpoint"})


def full_candidate(base: RunConfig) -> RunConfig:
    """Everything at once: wider, robust normalisation, stronger auxiliary terms, scheduled teacher."""
    wide = _resized(robust_normalisation(base), width=1.5, heads=1.0, layers=1.0, predictor_layers=1.0)
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


def named(candidates: Iterable[Candidate], base: RunConfig) -> dict[str, RunConfig]:
    """Each candidate's complete configuration under its name."""
    found: dict[str, RunConfig] = {}
    for candidate in candidates:
        name = candidate.__name__
        if name in found:
            raise ConfigError(f"Two candidates are named '{name}'.", remedy="Give every candidate a name of its own.")
        found[name] = candidate(base)
    return found


def paper_candidates(base: RunConfig) -> dict[str, RunConfig]:
    """The paper's twenty; they are variants of its network, and no other has the parts they change."""
    if base.model.network != "jepa":
        raise ConfigError(
            f"The paper's twenty candidates are variants of its network, and this study has the network "
            f"'{base.model.network}'.",
            expected="a study of the preset mended or paper, or candidates of your own",
            remedy="Begin the study with --protocol mended, or name a file of candidates (--candidates mine.yaml).",
        )
    return named(PAPER_CANDIDATES, base)


def from_yaml(path: Path, base: RunConfig) -> dict[str, RunConfig]:
    """A user's candidates: a mapping of names to dotted (or nested) settings that differ from the preset."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _NoDuplicates)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"The candidate file {path} cannot be read: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(value, dict | None) for value in content.values()):
        raise ConfigError(
            f"The candidate file {path} is no mapping of names to settings.",
            expected="for example 'slow_teacher: {training.ema_momentum: 0.9995}'",
        )
    return {
        str(name): override(base, leaves(settings or {}), f"Candidate '{name}' in {path}")
        for name, settings in content.items()
    }


def choose(base: RunConfig, path: Path | None = None, only: Sequence[str] | None = None) -> dict[str, RunConfig]:
    """The paper's twenty, some of them by name, or those of a user's file."""
    every = paper_candidates(base) if path is None else from_yaml(path, base)
    unknown = sorted(set(only or ()) - every.keys())
    if unknown:
        raise ConfigError(f"There is no candidate {', '.join(unknown)}.", expected=f"some of {', '.join(every)}")
    return {name: config for name, config in every.items() if not only or name in only}


class _NoDuplicates(yaml.SafeLoader):
    """YAML that refuses a name given twice instead of keeping the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=deep) for key, _ in node.value]
        doubled = sorted({str(name) for name in names if names.count(name) > 1})
        if doubled:
            raise yaml.YAMLError(f"these names stand twice: {', '.join(doubled)}")
        return super().construct_mapping(node, deep=deep)


def _change(base: RunConfig, settings: dict[str, Any]) -> RunConfig:
    return override(base, settings, "A candidate")


def _set(base: RunConfig, **weights: float) -> RunConfig:
    return _change(base, {f"objectives.weights.{name}": weight for name, weight in weights.items()})


def _token(base: RunConfig) -> RunConfig:
    return _change(base, {"model.predictor.injection": "token"})


def _mixed(base: RunConfig) -> RunConfig:
    return _change(base, {"masks.mode": "mixed", "masks.ratio": 0.35})


def _is_paper(base: RunConfig) -> bool:
    return base.training.selection == "paper"


def _resized(base: RunConfig, width: float, heads: float, layers: float, predictor_layers: float) -> RunConfig:
    """Scale the preset's size; from `base` this gives exactly the paper's compact, medium and large models."""
    blocks, encoder, predictor = base.jepa.blocks, base.jepa.encoder, base.jepa.predictor
    return _change(
        base,
        {
            "model.blocks.width": round(blocks.width * width),
            "model.blocks.heads": max(1, round(blocks.heads * heads)),
            "model.encoder.temporal_layers": max(1, round(encoder.temporal_layers * layers)),
            "model.predictor.layers": max(1, round(predictor.layers * predictor_layers)),
        },
    )
