"""Ready studies: one factor changed at a time against a reference, every arm with the same seeds.

`ablations` are the factors of the paper's Table 2b, each with the settings its text names, on the pre-search
configuration. `initialisation` is its comparison of scratch, pretrained body and complete checkpoint. `channel-drop`
and `no-latent` are what the paper lacks: how much to drop, and whether the latent objective earns its place.
`leave-one-out` trains on a fleet without each of its machines in turn, and forecasts the machine that was held out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from crossfeed.configuration import leaves, override
from crossfeed.errors import ConfigError
from crossfeed.study.candidates import LISTS, PAPER_CANDIDATES, Settings
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


def _ready_studies() -> dict[str, ReadyStudy]:
    content = yaml.safe_load((LISTS / "ready_studies.yaml").read_text(encoding="utf-8"))
    return {
        name: ReadyStudy(
            study["reference"],
            PAPER_CANDIDATES[study["candidate"]] if "candidate" in study else study.get("changes", {}),
            {arm: leaves(settings) for arm, settings in study["arms"].items()},
            study.get("any_network", False),
        )
        for name, study in content.items()
    }


READY = _ready_studies()
ALL_EPOCHS = "likelihood_only_all_epochs"  # the likelihood alone with as many steps as the reference


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
    every = dict(found.arms)
    if ALL_EPOCHS in every:
        every[ALL_EPOCHS] = every[ALL_EPOCHS] | {"training.finetune_epochs": _all_epochs(base)}
    reference = override(base, found.changes, "An arm")
    return {found.reference: reference, **{name: override(reference, own, "An arm") for name, own in every.items()}}


def _all_epochs(base: RunConfig) -> int:
    """The epochs of both stages."""
    if base.training.finetune_epochs is None:
        raise ConfigError(
            "training.finetune_epochs is left to the number of windows, so the epochs of both stages are not known.",
            remedy="Begin the study with a number, such as --set training.finetune_epochs=100.",
        )
    return base.training.pretrain_epochs + base.training.finetune_epochs


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
