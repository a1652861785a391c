"""One stage, epoch by epoch: train, validate, record, keep the best, save, stop in time."""

import copy
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crossfeed.errors import TrainingError
from crossfeed.model.interface import ALONE, ProcessGroup, Stage
from crossfeed.model.world_model import WorldModel
from crossfeed.progress import ProgressTask, console, progress
from crossfeed.show.tables import plural
from crossfeed.training.checkpoint import Best, Saver, TrainingState, optimiser_tensors, restore_optimiser
from crossfeed.training.data import TrainingData
from crossfeed.training.folder import RunFolder
from crossfeed.training.hardware import WARM_UP
from crossfeed.training.history import Row, write_history
from crossfeed.training.optimiser import learning_rates, momenta
from crossfeed.training.run_config import RunConfig
from crossfeed.training.seeds import steps_in_epoch
from crossfeed.training.step import TrainStep
from crossfeed.training.synthetic_plans import SyntheticPlans
from crossfeed.training.validate import Validator

OnEpoch = Callable[[Row], None]
TIMED = 3  # steps
# A window that is only read costs about a third of one that is learned from, and validation reads each about twice.
READING = 2.0 / 3.0


@dataclass(frozen=True)
class StageRun:
    """What a stage works on; the history grows in place and is shared by both stages."""

    model: WorldModel
    data: TrainingData
    config: RunConfig
    folder: RunFolder
    precision: str
    history: list[dict[str, Any]]
    observers: Sequence[OnEpoch]
    group: ProcessGroup = ALONE
    synthetic_plans: SyntheticPlans | None = None


def run_stage(run: StageRun, stage: Stage, state: TrainingState | None) -> Best:
    """Train one stage to its end, from its beginning or from a saved state; the model then holds the best weights."""
    training = run.config.training
    epochs = training.stages[stage]
    steps = steps_in_epoch(len(run.data.train), training.batch_size, training.steps_per_epoch)
    step = TrainStep(run.model, run.data.train, run.config, stage, steps, run.precision, run.group, run.synthetic_plans)
    data = run.data
    validator = Validator(run.model, data.train, data.validation, run.config, run.precision, step.captured)
    best, best_weights, done = Best(training.patience), dict[str, Tensor](), 0
    if state is not None:
        best, best_weights, done = state.best, state.best_model, state.epoch
        run.model.load_state_dict(state.model)
        restore_optimiser(step.optimiser, run.model, state.optimiser)
        if step.average is not None:
            step.average.restore(state.average)
    elif run.group.size == 1:
        # Compiling a copy for a forecast of the time would take longer than the forecast is worth.
        seconds = None if step.compiled else expected_seconds(run, stage, steps, len(validator.windows_W))
        about = "" if seconds is None else f", about {spoken(seconds)}"
        told = f"{plural(epochs, 'epoch')} of {plural(steps, 'step')}{about}"
        console().print(f"{stage}: {told} on {step.device}{_sooner(run, stage)}")
    saver = Saver(run.folder.path, behind=step.device.type == "cuda")
    with progress(stage, total=epochs) as task:
        task.advance(done)
        while done < epochs and not best.exhausted:
            trained = _train(step, done, task)
            with step.average.applied() if step.average else nullcontext():
                row = _judge(run, step, validator, stage, done, trained)
                best = best.update(done, row["score"])
                if best.epoch == done:
                    best_weights = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
            row["best_epoch"] = best.epoch
            run.history.append(row)
            done += 1
            finished = done == epochs or best.exhausted
            if run.group.leads and (finished or done % training.save_every == 0):
                _save(run, step, stage, done, best, best_weights, saver)
            _tell(row, task)
            for observe in run.observers:
                observe(row)
    saver.wait()
    if done < epochs:
        console().print(
            f"{stage}: stopped after epoch {done} of {epochs}, because none was better than epoch {best.epoch + 1}"
        )
    if best_weights:
        run.model.load_state_dict(best_weights)
    return best


def _sooner(run: StageRun, stage: Stage) -> str:
    """When a stage ends before its last epoch, where that can happen."""
    patience = run.config.training.patience
    return f", less if {patience} epochs in a row bring nothing" if patience < run.config.training.stages[stage] else ""


def expected_seconds(run: StageRun, stage: Stage, steps: int, validation_windows: int) -> float | None:
    """How long a stage will take if it does not stop early: a few steps on a copy of the model, timed.

    Nothing for a stage so short that more than a tenth of its own time would go into the question.
    """
    training, data = run.config.training, run.data
    # On a GPU the step is captured after the warm-up.
    untimed = 1 if data.train.last_W.device.type == "cpu" else WARM_UP + 1
    if training.stages[stage] * steps < 10 * (untimed + TIMED):
        return None
    model, timed = copy.deepcopy(run.model), untimed + TIMED
    probe = TrainStep(model, data.train, run.config, stage, timed, run.precision, synthetic_plans=run.synthetic_plans)
    probe.begin_epoch(0)
    for _ in range(untimed):
        probe()
    probe.trace()
    began = time.perf_counter()
    for _ in range(TIMED):
        probe()
    probe.trace()
    per_step = (time.perf_counter() - began) / TIMED
    return training.stages[stage] * per_step * (steps + READING * validation_windows / training.batch_size)


def spoken(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 90.0:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60.0)} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"


def _train(step: TrainStep, epoch: int, task: ProgressTask) -> dict[str, Any]:
    """Train one epoch; gives the losses and the time it took."""
    began = time.perf_counter()
    step.begin_epoch(epoch)
    for number in range(step.steps):
        step()
        task.advance(1.0 / step.steps)
        if step.device.type == "cpu":  # free here; elsewhere the host would wait for the device
            _check_finite(step, epoch, number + 1)
    trace_ST = _check_finite(step, epoch, step.steps)
    losses = zip(step.names, trace_ST.double().mean(0).tolist(), strict=True)
    return {f"train_{name}": value for name, value in losses} | {"train_seconds": time.perf_counter() - began}


def _judge(
    run: StageRun, step: TrainStep, validator: Validator, stage: Stage, epoch: int, trained: dict[str, Any]
) -> dict[str, Any]:
    """Validate after an epoch; gives the row for the history."""
    training, began = run.config.training, time.perf_counter()
    terms, score = validator.losses(stage)
    health = validator.health()
    row: dict[str, Any] = {"stage": stage, "epoch": epoch}
    last, planned = (epoch + 1) * step.steps, step.steps * training.stages[stage]
    row["learning_rate"] = float(learning_rates(training, planned)[last - 1])
    row["momentum"] = float(momenta(training, planned)[last - 1])
    row |= trained
    row |= {f"validation_{name}": value for name, value in terms.items()}
    if stage == "finetune":
        scores = validator.forecast()
        score = scores.rmse
        row |= {name: getattr(scores, name) for name in ("rmse", "mae", "nll", "crps", "coverage90")}
        if training.keep == "transfer":
            row["other_machine_crps"] = validator.other_machine_crps()
            score = 0.5 * (row["crps"] + row["other_machine_crps"])
        elif training.keep == "machines":
            score = row["usual_machine_crps"] = validator.usual_machine_crps()
    row["score"] = run.group.agree(score, step.device)
    row |= health.values
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise _not_a_number(name, value, f"after {stage} epoch {epoch + 1}")
    row["collapse"] = "; ".join(health.reasons) or None
    row["validation_seconds"] = time.perf_counter() - began
    return row


def _check_finite(step: TrainStep, epoch: int, steps: int) -> Tensor:
    """Stop on the first loss that is no number, naming term and step; the last saved epoch stays as it is."""
    trace_ST = step.trace()[:steps]
    if bool(trace_ST.isfinite().all()):
        return trace_ST
    number, term = torch.nonzero(~trace_ST.isfinite())[0].tolist()
    where = f"in step {number + 1} of {step.stage} epoch {epoch + 1}"
    raise _not_a_number(step.names[term], float(trace_ST[number, term]), where)


def _not_a_number(name: str, value: float, where: str) -> TrainingError:
    return TrainingError(
        f"The {name.replace('_', ' ')} {'is no number' if math.isnan(value) else 'is infinite'} {where}.",
        expected="finite losses",
        remedy="The state after the last complete epoch is kept. Lower training.learning_rate, give "
        "training.warmup_steps, or look for extreme values in the table (crossfeed audit).",
    )


def _save(
    run: StageRun, step: TrainStep, stage: Stage, done: int, best: Best, weights: dict[str, Tensor], saver: Saver
) -> None:
    state = TrainingState(
        stage=stage,
        epoch=done,
        best=best,
        history=run.history,
        model=run.model.state_dict(),
        optimiser=optimiser_tensors(step.optimiser, run.model),
        best_model=weights,
        average=step.average.tensors() if step.average else {},
    )
    saver.save(state)
    write_history(run.folder.history, run.history)


def _tell(row: Row, task: ProgressTask) -> None:
    """Score and health beside the bar; on a terminal also a line above it with every loss of the epoch."""
    health = "[red]collapsed[/]" if row["collapse"] else ""
    if not health and "target_rank" in row:
        health = f"rank {row['target_rank']:.0%}"
    task.advance(0.0, f"score {row['score']:.4g}  {health}")
    target = console()
    if target.is_terminal:
        losses = "  ".join(
            f"{name.removeprefix('validation_')} {value:.3g}"
            for name, value in row.items()
            if name.startswith("validation_") and name != "validation_seconds"
        )
        target.print(f"{row['stage']} {row['epoch'] + 1}: score {row['score']:.4g}  {losses}  {health}")
