"""One row per epoch: losses, score, health and seconds, in `history.parquet`, `log.txt` and, if asked, TensorBoard."""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from crossfeed.errors import ConfigError, CrossfeedError, StorageError
from crossfeed.files import CHECKSUM, __version__, atomic_file, checksum, plain, storage_error, verify
from crossfeed.logs.parquet import column
from crossfeed.show.tables import plural
from crossfeed.training.data import TrainingData
from crossfeed.training.run_config import RunConfig

Row = Mapping[str, Any]
LOG = "log.txt"  # in the folder of a run: what a person would want to read afterwards


def write_history(path: Path, rows: Sequence[Row]) -> None:
    """Write all epochs so far; a column that a stage does not have is null there."""
    import pyarrow
    import pyarrow.parquet

    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = pyarrow.table({name: column([row.get(name) for row in rows]) for name in columns})
    table = table.replace_schema_metadata({CHECKSUM: checksum(plain(table.to_pylist()))})
    with atomic_file(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)


def read_history(path: Path) -> list[dict[str, Any]]:
    """The epochs of a run, as written."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(path).read()
        rows: list[dict[str, Any]] = table.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}.", remedy="Train the run again.") from error
    stated = (table.schema.metadata or {}).get(CHECKSUM.encode())
    verify(path, stated.decode() if stated else None, checksum(plain(rows)), "Train the run again.")
    return rows


def tensorboard_writer() -> Callable[[Path], Callable[[Row], None]]:
    """Given a folder, a function that sends rows to TensorBoard; the package is asked for only when this is called."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            f"TensorBoard output was asked for, but the package 'tensorboard' cannot be imported ({error}).",
            remedy="Run 'pip install tensorboard', or go without: history.parquet holds the same numbers.",
        ) from error
    return lambda folder: partial(_send, SummaryWriter(log_dir=str(folder)))


def _send(writer: Any, row: Row) -> None:
    for name, value in row.items():
        if isinstance(value, float):
            writer.add_scalar(f"{row['stage']}/{name}", value, row["epoch"])
    writer.flush()


@contextmanager
def run_log(folder: Path, facts: Mapping[str, str]) -> Iterator[Callable[[Row], None]]:
    """Write down how a run begins, each epoch, and how it ends; every start of a resumed run adds to the same file."""

    def say(line: str) -> None:
        try:
            with (folder / LOG).open("a", encoding="utf-8") as file:
                file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {line}\n")
        except OSError as error:
            raise storage_error("Writing", folder / LOG, error) from error

    say(f"start: crossfeed {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    for name, value in facts.items():
        say(f"  {name}: {value}")

    def epoch(row: Row) -> None:
        parts = [f"score {row['score']:.4f} (best so far in epoch {row['best_epoch'] + 1})"]
        parts += [f"{name} {row[name]:.4f}" for name in ("rmse", "crps") if row.get(name) is not None]
        seconds = row["train_seconds"] + row["validation_seconds"]
        say(f"{row['stage']} epoch {row['epoch'] + 1}: {', '.join(parts)}; {seconds:.1f} s")
        if row.get("collapse"):
            say(f"warning: latents collapsed: {row['collapse']}")

    try:
        yield epoch
    except KeyboardInterrupt:
        say("stopped by hand; --resume goes on after the last epoch above")
        raise
    except CrossfeedError as error:
        say(f"error: {error.found}")
        raise
    say("end: model.safetensors, history.parquet and summary.json are written")


def facts_of(data: TrainingData, config: RunConfig, device: torch.device, precision: str) -> dict[str, str]:
    """What stands at the top of the log; the whole configuration is in config.yaml beside it."""
    training = config.training
    epochs = f"{training.pretrain_epochs} + {training.finetune_epochs} epochs at most"
    return {
        "machines": ", ".join(data.train.machines),
        "windows": f"{len(data.train)} to train on, {len(data.validation)} to validate",
        "device": f"{device}, {precision}, {plural(torch.get_num_threads(), 'thread')}",
        "config": f"config.yaml; seed {training.seed}, batches of {training.batch_size}, {epochs}",
    }
