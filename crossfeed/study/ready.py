"""Ready studies: one factor changed at a time against a reference, every arm with the same seeds.

`ablations` are the factors of the paper's Table 2b, each with the settings its text names, on the pre-search
configuration. `initialisation` is its comparison of scratch, pretrained body and complete checkpoint. `channel-drop`
and `no-latent` are what the paper lacks: how much to drop, and whether the latent objective earns its place.
`leave-one-out` trains on a fleet without each of its machines in turn, and forecasts the machine that was held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from crossfeed.configuration import override
from crossfeed.errors import ConfigError
from crossfeed.study.candidates import PAPER_CANDIDATES, Settings, weights
from crossfeed.study.contrast import ALL_MACHINES, LEAVE_ONE_OUT, machines_of
from crossfeed.study.record.store import Store
from crossfeed.study.search import plan_runs
from crossfeed.training.run_config import RunConfig


@dataclass(frozen=True, slots=True)
class ReadyStudy:
    """What the reference changes of the study's configuration, and every arm of the reference."""

    reference: str
    changes: Settings
    arms: dict[str, Settings]
    any_network: bool = False


_LIKELIHOOD_ONLY: Settings = {
    "training.initialisation": "scratch",
    **weights(latent=0.0, vicreg=0.0, schema=0.0, recovery=0.0),
}
READY: dict[str, ReadyStudy] = {
    "ablations": ReadyStudy(
        "pre_search", PAPER_CANDIDATES["per_horizon_vicreg"],
        {
            "film_commands": {"model.predictor.injection": "film"},
            "cross_attention_commands": {"model.predictor.injection": "cross_attention"},
            "lightest_masks": {"masks.ratio": 0.03},  # whole channels are dropped all the same
            "latent_weight_0": weights(latent=0.0),
            "latent_weight_025": weights(latent=0.25),
            "latent_weight_4": weights(latent=4.0),
            "no_vicreg": weights(vicreg=0.0),
            "vicreg_01": weights(vicreg=0.1),
            "post_norm": {"model.blocks.norm": "post"},
            "pooled_horizons": {"objectives.latent_target": "pooled", "objectives.regularise": "pooled"},
            "teacher_099": {"training.ema_momentum": 0.99},
            "teacher_0999": {"training.ema_momentum": 0.999},
            "teacher_09995": {"training.ema_momentum": 0.9995},
        },
    ),
    "initialisation": ReadyStudy(
        "scratch", {"training.initialisation": "scratch"},
        {
            "pretrained_body": {"training.initialisation": "body_fresh_head"},
            "complete_checkpoint": {"training.initialisation": "complete_checkpoint"},
        },
    ),
    "channel-drop": ReadyStudy(
        "drop_15", {"masks.mode": "channel", "masks.channel_drop": 0.15},
        {f"drop_{percent}": {"masks.channel_drop": percent / 100} for percent in (0, 5, 30, 50)},
        any_network=True,
    ),
    "no-latent": ReadyStudy(
        "as_it_is", {}, {"latent_weight_0": weights(latent=0.0), "likelihood_only": _LIKELIHOOD_ONLY},
    ),
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
    reference = override(base, found.changes, "An arm")
    every = found.arms | (_all_epochs(base) if kind == "no-latent" else {})
    return {found.reference: reference, **{name: override(reference, own, "An arm") for name, own in every.items()}}


def _all_epochs(base: RunConfig) -> dict[str, Settings]:
    """The likelihood alone with the epochs of both stages: the same number of steps as the reference."""
    if base.training.finetune_epochs is None:
        raise ConfigError(
            "training.finetune_epochs is left to the number of windows, so the epochs of both stages are not known.",
            remedy="Begin the study with a number, such as --set training.finetune_epochs=100.",
        )
    epochs = base.training.pretrain_epochs + base.training.finetune_epochs
    return {"likelihood_only_all_epochs": _LIKELIHOOD_ONLY | {"training.finetune_epochs": epochs}}


def _without_each(base: RunConfig, machines: Sequence[str]) -> dict[str, RunConfig]:
    """All machines, then all but each one of them."""
    if len(machines) < 2:
        raise ConfigError(
            f"Only {' and '.join(machines) or 'no machine'} is in the source tables, so none can be left out.",
            expected="source tables of at least two machines",
            remedy="Add --source for every machine of the fleet.",
        )
    return {ALL_MACHINES: base} | {
        f"without_{machine}": override(base, {"data.leave_out": [machine]}, "An arm") for machine in machines
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
    return plan_runs(store, {f"{kind}.{name}": configs[name] for name in chosen}, range(seeds), f"ready {kind}")
