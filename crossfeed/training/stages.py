"""Both stages of a run, one after the other, and the files that it leaves behind."""

from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from crossfeed.json_file import write_sealed
from crossfeed.model.model_file import ModelFile, read_model_file
from crossfeed.model.world_model import WorldModel
from crossfeed.training.data import TrainingData
from crossfeed.training.initialise import LoadReport, initialise
from crossfeed.training.loop import StageRun, run_stage
from crossfeed.training.measure.calibrate import calibrate
from crossfeed.training.measure.validate import Validator
from crossfeed.training.pretrained import average_with_pretrained, initial_weights
from crossfeed.training.record.checkpoint import TrainingState, load_state
from crossfeed.training.record.history import write_history
from crossfeed.training.record.summary import data_facts, environment, stage_facts, validation_facts
from crossfeed.training.rehearsal import Rehearsal
from crossfeed.training.run_config import RunConfig, departures
from crossfeed.training.seeds import Purpose, derive, generator

Facts = dict[str, Any]


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
    return _written(model, run, device, provenance, facts, report) if run.team.leads else None


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
        if run.team.leads:
            run.model.save(run.folder.pretrained, {**provenance, "stages": stage_facts(run.history)})
        run.team.wait()
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
    rehearsal = Rehearsal.of(model, data.train, generator(training.seed, "plans")) if learns_on else None
    own_state = state if state is not None and state.stage == "finetune" else None
    run_stage(replace(run, model=model, rehearsal=rehearsal), "finetune", own_state)
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
