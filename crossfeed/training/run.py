"""Train a world model: tables and a configuration in, a folder with the model and its whole history out."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossfeed.configuration import differences
from crossfeed.errors import ConfigError, TrainingError
from crossfeed.ingest.table import Table
from crossfeed.json_file import read_sealed
from crossfeed.model.device import choose_device
from crossfeed.model.locate import locate_model
from crossfeed.model.model_file import ModelFile, read_model_file
from crossfeed.products import wide_products
from crossfeed.training.budget import planned
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.devices.acceleration import resolve_precision
from crossfeed.training.devices.distributed import own_device, teamwork
from crossfeed.training.loop import OnEpoch, StageRun
from crossfeed.training.order import steps_in_epoch
from crossfeed.training.pretrained import aligned, finetuning_config
from crossfeed.training.record.checkpoint import remove_state
from crossfeed.training.record.folder import RunFolder, open_folder, sole_process
from crossfeed.training.record.history import tensorboard_writer
from crossfeed.training.record.log import facts_of, run_log
from crossfeed.training.run_config import RunConfig
from crossfeed.training.seeds import own_randomness
from crossfeed.training.stages import fresh_model, run_stages
from crossfeed.windows.split_tables import without_machines

FEWEST_VALIDATION_WINDOWS = 8


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
        teamwork(chosen_device) as team,
        own_randomness(chosen_device),
        sole_process(Path(out)) if team.leads else nullcontext(),
    ):
        # The leading process claims the folder and keeps other runs out of it.
        identity = config.model_dump(mode="json")
        folder = open_folder(out, identity, inputs, resume) if team.leads else RunFolder(Path(out))
        team.wait()
        summary = None
        if not folder.finished:
            observers = [on_epoch] if on_epoch else []
            if writer and team.leads:
                observers.append(writer(folder.path / "tensorboard"))
            facts = facts_of(data, config, chosen_device, precision)
            with run_log(folder.path, facts) if team.leads else nullcontext() as diary:
                observers += [diary] if diary else []
                model = fresh_model(data, config, "init", chosen_device)
                run = StageRun(model, data, config, folder, precision, [], observers, team)
                summary = run_stages(run, chosen_device, inputs, origin)
            team.wait()
        if team.leads:
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
