"""Rows of an answer in a file that other programs read."""

from pathlib import Path
from typing import TYPE_CHECKING

from crossfeed.atomic import atomic_file
from crossfeed.errors import StorageError

if TYPE_CHECKING:
    import polars as pl


def write_rows(frame: "pl.DataFrame", path: Path | str) -> None:
    """Write a frame as CSV or Parquet; the file appears whole or not at all."""
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise StorageError(
            f"Rows cannot be written as '{Path(path).name}'.", expected="a name that ends in .csv or .parquet"
        )
    with atomic_file(path) as temporary:
        if ending == ".csv":
            frame.write_csv(temporary)
        else:
            frame.write_parquet(temporary)
