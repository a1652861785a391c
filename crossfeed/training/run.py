"""Train a world model: tables and a configuration in, a folder with the model and its whole history out."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crossfeed.configuration import differences
from crossfeed.errors import ConfigError, TrainingError
from crossfeed.files import read_sealed, write_sealed
from crossfeed.logs.table import Table
from crossfeed.model.model_file import ModelFile, locate_model, read_model_file
from crossfeed.model.world_model import WorldModel, choose_device
from crossfeed.processes import wide_products
from crossfeed.training.checkpoint import TrainingState, load_state, remove_state
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.folder import RunFolder, open_folder, sole_process
from crossfeed.training.hardware import own_device, process_group, resolve_precision
from crossfeed.training.history import facts_of, run_log, tensorboard_writer, write_history
from crossfeed.training.loop import OnEpoch, StageRun, run_stage
from crossfeed.training.pretrained import (
    LoadReport,
    aligned,
    average_with_pretrained,
    finetuning_config,
    initial_weights,
    initialise,
)
from crossfeed.training.reading import calibrate
from crossfeed.training.run_config import RunConfig, departures, planned
from crossfeed.training.seeds import Purpose, derive, generator, own_randomness, steps_in_epoch
from crossfeed.training.summary import data_facts, environment, stage_facts, validation_facts
from crossfeed.training.synthetic_plans import SyntheticPlans
from crossfeed.training.validate import Validator
from crossfeed.windows.split_tables import without_machines

Facts = dict[str, Any]
FEWEST_VALIDATION_WINDOWS = 8


def fresh_model(data: TrainingData, config: RunConfig, purpose: Purpose, device: torch.device) -> WorldModel:
    """A model with newly drawn weights; drawn on the host, so that every device starts from the same ones."""
    torch.manual_seed(derive(config.training.seed, purpose))
    return WorldModel.build(config.model, data.schema, data.normaliser).to(device)


def run_stages(run: StageRun, device: torch.device, inputs: Facts, origin: ModelFile | None) -> Facts | None:
    """Both stages from wherever the folder says they stand, then the files of the finished run and its summary.

    `origin` is the pretrained model that the run begins with, if any.
    """
    state = load_state(run.folder.path, device)
    run.history.extend(state.history if state else ())
    facts = data_facts(run.data)
    provenance = _provenance(run.config, inputs, facts, origin)
    stages, model, report = run.config.training.stages, run.model, LoadReport((), (), ())
    weights = initial_weights(run.data.schema, origin) if origin else {}
    if origin is None and "pretrain" in stages:
        weights = _pretrained(run, state, provenance)
    if "finetune" in stages:
        model, report = _finetuned(run, state, weights, origin)
    calibrate(model, run.data.validation)
    return _written(model, run, device, provenance, facts, report) if run.group.leads else None


def _provenance(config: RunConfig, inputs: Facts, facts: Facts, origin: ModelFile | None) -> Facts:
    """What the model files say of their origin."""
    provenance = {"config": config.model_dump(mode="json"), **inputs, **facts}
    if origin is not None and "usual_scales" in facts:  # for sensors that it meets later: what was usual elsewhere
        provenance["usual_scales"] = {**origin.provenance.get("usual_scales", {}), **facts["usual_scales"]}
    return provenance


def _pretrained(run: StageRun, state: TrainingState | None, provenance: Facts) -> dict[str, Tensor]:
    """The weights of the first stage, trained now unless the run is past it."""
    if state is None or state.stage == "pretrain":
        run_stage(run, "pretrain", state)
        if run.group.leads:
            run.model.save(run.folder.pretrained, {**provenance, "stages": stage_facts(run.history)})
        run.group.wait()
    return read_model_file(run.folder.pretrained).tensors


def _finetuned(
    run: StageRun, state: TrainingState | None, weights: dict[str, Tensor], origin: ModelFile | None
) -> tuple[WorldModel, LoadReport]:
    """The model after the second stage, and what it took over from those weights."""
    data, training = run.data, run.config.training
    how = training.initialisation
    model = run.model if how == "scratch" else fresh_model(data, run.config, "fresh_head", run.model.device)
    report = initialise(model, weights, how)
    learns_on = origin is not None and origin.normaliser.is_placeholder and not data.normaliser.is_placeholder
    synthetic_plans = SyntheticPlans.of(model, data.train, generator(training.seed, "plans")) if learns_on else None
    own_state = state if state is not None and state.stage == "finetune" else None
    run_stage(replace(run, model=model, synthetic_plans=synthetic_plans), "finetune", own_state)
    if learns_on:
        average_with_pretrained(model, weights)
    return model, report


def _written(
    model: WorldModel, run: StageRun, device: torch.device, provenance: Facts, facts: Facts, report: LoadReport
) -> Facts:
    """The summary, once it lies in the folder beside model and history."""
    config, history, stages = run.config, run.history, stage_facts(run.history)
    validation = validation_facts(Validator(model, run.data.train, run.data.validation, config, run.precision))
    command_use = {"shuffled_command_ratio": validation["shuffled_command_ratio"]}
    model.save(run.folder.model, {**provenance, **command_use, "stages": stages})
    write_history(run.folder.history, history)
    size, differing = departures("crossfeed", config.model_dump(mode="json"))
    summary = {
        "preset": {"size": size, "departures": differing},
        "stages": stages,
        "validation": validation,
        "initialisation": {"how": config.training.initialisation, **asdict(report)},
        "data": facts,
        "device": str(device),
        "precision": run.precision,
        "environment": environment(),
        "seconds": sum(row["train_seconds"] + row["validation_seconds"] for row in history),
    }
    write_sealed(run.folder.summary, summary)
    return summary


@dataclass(frozen=True)
class RunResult:
    """Where a finished run lies and what it found; `summary` is the content of summary.json."""

    folder: Path
    model: Path
    summary: dict[str, Any]


@wide_products()
def train(
    tables: Table | Sequence[Table],
    config: RunConfig,
    out: Path | str,
    *,
    resume: bool = False,
    device: str = "auto",
    pretrained: Path | str | None = None,
    on_epoch: OnEpoch | None = None,
    tensorboard: bool = False,
    budget: str = "normal",
) -> RunResult:
    """Pretrain, fine-tune, and write model, history and summary into `out`.

    `resume` goes on with an interrupted run of the same configuration and tables, as if it had never stopped.
    `pretrained` takes the body from an earlier run's file instead of pretraining; `fleet`, which knows machines,
    is taken whole and learns on. `on_epoch` sees each history row.
    `budget` quick trains a quarter as long as usual, thorough three times; both stop early when nothing gets better.
    """
    tables = [tables] if isinstance(tables, Table) else list(tables)
    _check_left_out(tables, config)
    tables = without_machines(tables, config.data.leave_out)
    fingerprints = [table.fingerprint() for table in tables]
    origin = read_model_file(locate_model(pretrained)) if pretrained is not None else None
    if origin is not None and origin.normaliser.method == "frame":
        config, tables = finetuning_config(config, origin), aligned(tables, origin)
    _check_plan(config, origin)
    chosen_device = choose_device(own_device(device))
    precision = resolve_precision(config.training.precision, chosen_device)
    writer = tensorboard_writer() if tensorboard else None
    data = prepare(tables, config, chosen_device, origin.provenance.get("usual_scales") if origin else None)
    config = planned(config, len(data.train), budget)
    _check_windows(data, config)
    inputs = {"tables": fingerprints, "pretrained": origin.sha256 if origin else None}
    with (
        process_group(chosen_device) as group,
        own_randomness(chosen_device),
        sole_process(Path(out)) if group.leads else nullcontext(),
    ):
        # The leading process claims the folder and keeps other runs out of it.
        identity = config.model_dump(mode="json")
        folder = open_folder(out, identity, inputs, resume) if group.leads else RunFolder(Path(out))
        group.wait()
        summary = None
        if not folder.finished:
            observers = [on_epoch] if on_epoch else []
            if writer and group.leads:
                observers.append(writer(folder.path / "tensorboard"))
            facts = facts_of(data, config, chosen_device, precision)
            with run_log(folder.path, facts) if group.leads else nullcontext() as logger:
                observers += [logger] if logger else []
                model = fresh_model(data, config, "init", chosen_device)
                run = StageRun(model, data, config, folder, precision, [], observers, group)
                summary = run_stages(run, chosen_device, inputs, origin)
            group.wait()
        if group.leads:
            remove_state(folder.path)
    summary = summary or read_sealed(folder.summary)
    return RunResult(folder.path, folder.model, summary)


def _check_plan(config: RunConfig, origin: ModelFile | None) -> None:
    """Refuse a second stage whose start contradicts what is at hand."""
    how = config.training.initialisation
    if origin is not None and how == "scratch":
        raise ConfigError(
            "Pretrained weights were given, but training.initialisation is 'scratch'.",
            remedy="Leave the weights away, or choose 'body_fresh_head' or 'complete_checkpoint'.",
        )
    if origin is None and how != "scratch" and "pretrain" not in config.training.stages:
        raise ConfigError(
            f"training.initialisation is '{how}', but training.pretrain_epochs is 0 and no pretrained file was given.",
            remedy="Set training.initialisation=scratch, give pretraining some epochs, or name a pretrained file.",
        )
    if origin is not None and origin.config != config.model:
        different = differences(origin.config, config.model)
        listed = "; ".join(f"model.{name}: {there} there, {here} asked" for name, (there, here) in different.items())
        raise ConfigError(
            f"The pretrained file holds a model of another configuration. {listed}.",
            remedy="Use the same preset, size and model settings as in the pretraining run.",
        )


def _check_left_out(tables: Sequence[Table], config: RunConfig) -> None:
    """Leaving out a machine that is not there would say more than was done."""
    if not config.data.leave_out:
        return
    machines = {machine for table in tables for machine in table.machines()}
    unknown = sorted(set(config.data.leave_out) - machines)
    if unknown or not machines - set(config.data.leave_out):
        raise ConfigError(
            f"data.leave_out names {', '.join(unknown or config.data.leave_out)}.",
            expected=f"some, but not all, of {', '.join(sorted(machines))}",
        )


def _check_windows(data: TrainingData, config: RunConfig) -> None:
    """Refuse data too small for one batch, or for judging a model, before a folder is claimed."""
    steps_in_epoch(len(data.train), config.training.batch_size, None)
    if len(data.validation) < FEWEST_VALIDATION_WINDOWS:
        raise TrainingError(
            f"The validation part has {len(data.validation)} windows, too few to judge a model by.",
            expected=f"at least {FEWEST_VALIDATION_WINDOWS} windows",
            remedy="Give more or longer sessions, or raise data.validation_fraction.",
        )
