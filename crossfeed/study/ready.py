"""Ready studies: one factor changed at a time against a reference, every arm a short function with the same seeds.

`ablations` are the factors of the paper's Table 2b, each with the settings its text names, on the pre-search
configuration. `initialisation` is its comparison of scratch, pretrained body and complete checkpoint. `channel-drop`
and `no-latent` are what the paper lacks: how much to drop, and whether the latent objective earns its place.
`leave-one-out` trains on a fleet without each of its machines in turn, and meets that machine as a stranger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crossfeed.configuration import override
from crossfeed.errors import ConfigError
from crossfeed.study.candidates import Candidate, named
from crossfeed.study.paper_candidates import per_horizon_vicreg
from crossfeed.study.record.ready import ALL_MACHINES, LEAVE_ONE_OUT, machines_of
from crossfeed.study.record.store import Store
from crossfeed.study.search import plan
from crossfeed.training.run_config import RunConfig


def _change(base: RunConfig, **settings: Any) -> RunConfig:
    """Settings with double underscores for dots."""
    return override(base, {name.replace("__", "."): value for name, value in settings.items()}, "An arm")


def as_it_is(base: RunConfig) -> RunConfig:
    """The study's own configuration."""
    return base


def pre_search(base: RunConfig) -> RunConfig:
    """The configuration of Table 2b: tokens, mixed masks, VICReg at every horizon, no auxiliary terms."""
    return per_horizon_vicreg(base)


def film_commands(base: RunConfig) -> RunConfig:
    """Command injection: FiLM."""
    return _change(base, model__predictor__injection="film")


def cross_attention_commands(base: RunConfig) -> RunConfig:
    """Command injection: cross-attention."""
    return _change(base, model__predictor__injection="cross_attention")


def lightest_masks(base: RunConfig) -> RunConfig:
    """Mask ratio 0.03; whole channels are dropped all the same."""
    return _change(base, masks__ratio=0.03)


def latent_weight_0(base: RunConfig) -> RunConfig:
    """The latent term alone is left out."""
    return _change(base, objectives__weights__latent=0.0)


def latent_weight_025(base: RunConfig) -> RunConfig:
    """A quarter of the latent weight."""
    return _change(base, objectives__weights__latent=0.25)


def latent_weight_4(base: RunConfig) -> RunConfig:
    """Four times the latent weight."""
    return _change(base, objectives__weights__latent=4.0)


def no_vicreg(base: RunConfig) -> RunConfig:
    """Nothing against collapse."""
    return _change(base, objectives__weights__vicreg=0.0)


def vicreg_01(base: RunConfig) -> RunConfig:
    """Twice the VICReg weight."""
    return _change(base, objectives__weights__vicreg=0.1)


def post_norm(base: RunConfig) -> RunConfig:
    """Norms after attention and feed-forward instead of before."""
    return _change(base, model__blocks__norm="post")


def pooled_horizons(base: RunConfig) -> RunConfig:
    """Latent target and VICReg over the mean of the horizons."""
    return _change(base, objectives__latent_target="pooled", objectives__regularise="pooled")


def teacher_099(base: RunConfig) -> RunConfig:
    """A fast teacher."""
    return _change(base, training__ema_momentum=0.99)


def teacher_0999(base: RunConfig) -> RunConfig:
    """A slow teacher."""
    return _change(base, training__ema_momentum=0.999)


def teacher_09995(base: RunConfig) -> RunConfig:
    """The slowest teacher the paper tested."""
    return _change(base, training__ema_momentum=0.9995)


def scratch(base: RunConfig) -> RunConfig:
    """No pretraining; the second stage keeps its self-supervised terms."""
    return _change(base, training__initialisation="scratch")


def pretrained_body(base: RunConfig) -> RunConfig:
    """Pretrained body, fresh head."""
    return _change(base, training__initialisation="body_fresh_head")


def complete_checkpoint(base: RunConfig) -> RunConfig:
    """Everything of the pretrained checkpoint, untrained head included."""
    return _change(base, training__initialisation="complete_checkpoint")


def drop_15(base: RunConfig) -> RunConfig:
    """Whole channels hidden with the paper's probability."""
    return _change(base, masks__mode="channel", masks__channel_drop=0.15)


def drop_0(base: RunConfig) -> RunConfig:
    """Nothing hidden."""
    return _change(base, masks__channel_drop=0.0)


def drop_5(base: RunConfig) -> RunConfig:
    """One channel in twenty hidden."""
    return _change(base, masks__channel_drop=0.05)


def drop_30(base: RunConfig) -> RunConfig:
    """Nearly every third channel hidden."""
    return _change(base, masks__channel_drop=0.30)


def drop_50(base: RunConfig) -> RunConfig:
    """Half of the channels hidden."""
    return _change(base, masks__channel_drop=0.50)


def likelihood_only(base: RunConfig) -> RunConfig:
    """The same network and second stage without any self-supervised term: nothing to pretrain."""
    off = {f"objectives__weights__{name}": 0.0 for name in ("latent", "vicreg", "sigreg", "schema", "recovery")}
    return _change(scratch(base), **off)


def likelihood_only_all_epochs(base: RunConfig) -> RunConfig:
    """As before, with the epochs of both stages: the same number of steps as the reference."""
    if base.training.finetune_epochs is None:
        raise ConfigError(
            "training.finetune_epochs is left to the number of windows, so the epochs of both stages are not known.",
            remedy="Begin the study with a number, such as --set training.finetune_epochs=100.",
        )
    epochs = base.training.pretrain_epochs + base.training.finetune_epochs
    return _change(likelihood_only(base), training__finetune_epochs=epochs)


@dataclass(frozen=True, slots=True)
class Ready:
    """A reference and the arms that differ from it; the arms are functions of the reference."""

    reference: Candidate
    arms: tuple[Candidate, ...]
    any_network: bool = False


READY: dict[str, Ready] = {
    "ablations": Ready(
        pre_search,
        (
            film_commands, cross_attention_commands, lightest_masks, latent_weight_0, latent_weight_025,
            latent_weight_4, no_vicreg, vicreg_01, post_norm, pooled_horizons, teacher_099, teacher_0999,
            teacher_09995,
        ),
    ),
    "initialisation": Ready(scratch, (pretrained_body, complete_checkpoint)),
    "channel-drop": Ready(drop_15, (drop_0, drop_5, drop_30, drop_50), any_network=True),
    "no-latent": Ready(as_it_is, (latent_weight_0, likelihood_only, likelihood_only_all_epochs)),
}  # fmt: skip


def arms(kind: str, base: RunConfig, machines: Sequence[str] = ()) -> dict[str, RunConfig]:
    """The configurations of a ready study, the reference first; `machines` are those of its source tables."""
    if kind == LEAVE_ONE_OUT:
        return _without_each(base, machines)
    if kind not in READY:
        known = ", ".join([*READY, LEAVE_ONE_OUT])
        raise ConfigError(f"There is no ready study '{kind}'.", expected=f"one of {known}")
    found = READY[kind]
    if base.model.network != "jepa" and not found.any_network:
        able = ", ".join(name for name, ready in READY.items() if ready.any_network)
        raise ConfigError(
            f"The ready study '{kind}' changes parts that only the paper's network has; this study has the network "
            f"'{base.model.network}'.",
            expected=f"a study of the preset mended or paper, or {able}",
            remedy="Begin the study with --protocol mended.",
        )
    reference = found.reference(base)
    return {found.reference.__name__: reference, **named(found.arms, reference)}


def _without_each(base: RunConfig, machines: Sequence[str]) -> dict[str, RunConfig]:
    """All machines, then all but each one of them."""
    if len(machines) < 2:
        raise ConfigError(
            f"Only {' and '.join(machines) or 'no machine'} is in the source tables, so none can be left out.",
            expected="source tables of at least two machines",
            remedy="Add --source for every machine of the fleet.",
        )
    return {ALL_MACHINES: base} | {
        f"without_{machine}": _change(base, data__leave_out=[machine]) for machine in machines
    }


def plan_ready(store: Store, kind: str, base: RunConfig, seeds: int, only: Sequence[str] = ()) -> int:
    """Write a ready study to the ledger and plan its runs; more seeds later extend it."""
    configs = arms(kind, base, machines_of(store))
    reference, *others = configs
    unknown = sorted(set(only) - set(others))
    if unknown:
        raise ConfigError(f"'{kind}' has no arm {', '.join(unknown)}.", expected=f"some of {', '.join(others)}")
    chosen = [reference, *(name for name in others if not only or name in only)]
    store.record("ready", {"kind": kind, "arms": chosen, "seeds": seeds})
    return plan(store, {f"{kind}.{name}": configs[name] for name in chosen}, range(seeds), f"ready {kind}")
