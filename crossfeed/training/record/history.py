"""One row per epoch: losses, score, health and seconds, in `history.parquet` and, on request, in TensorBoard."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crossfeed.atomic import atomic_file
from crossfeed.errors import ConfigError, StorageError
from crossfeed.ingest.parquet import column
from crossfeed.json_file import CHECKSUM, checksum, plain, verify

Row = Mapping[str, Any]


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

    def open_writer(folder: Path) -> Callable[[Row], None]:
        writer = SummaryWriter(log_dir=str(folder))

        def send(row: Row) -> None:
            for name, value in row.items():
                if isinstance(value, float):
                    writer.add_scalar(f"{row['stage']}/{name}", value, row["epoch"])
            writer.flush()

        return send

    return open_writer
