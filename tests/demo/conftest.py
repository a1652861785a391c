"""The demo at a size for tests: the same chapters, toy machines, a few steps of training."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crossfeed.demo import chapter as settings
from crossfeed.demo import results as rivals
from crossfeed.demo import selection
from crossfeed.demo.story import run_demo
from crossfeed.logs.table import Table
from crossfeed.study import lock, study
from tests.training.conftest import SMALL_SENSORS, toy_table

MICRO: dict[str, Any] = {
    **SMALL_SENSORS,
    "training.finetune_epochs": 2,
    "training.validation_windows": 32,
    "training.warmup_steps": 0,
}


def toy_pair(folder: Path, _: settings.DemoSettings) -> tuple[Table, Table]:
    """Two machines, the second without one of the sensors."""
    source, target = toy_table(sessions=9), toy_table("second", sessions=4, rows=80, seed=5, absent=("current_4",))
    source.write(folder / "source.parquet")
    target.write(folder / "target.parquet")
    return source, target


# What is changed for tests: module, name, value.
CHANGES: tuple[tuple[Any, str, Any], ...] = (
    (selection, "make_tables", toy_pair),
    (settings, "MODEL", MICRO),
    (selection, "CANDIDATES", {"as_the_preset": {}, "four_movers": {"model.movers": 4}}),
    (selection, "JOBS", 1),
    (rivals, "RIVALS", ("persistence", "ridge")),
    (rivals, "JOBS", 1),
    # After eight steps no model listens to the commands; the lock is not what is tested here.
    (lock, "refusals", lambda _: []),
    (study, "refusals", lambda _: []),
)


@pytest.fixture(scope="module")
def small() -> Iterator[settings.DemoSettings]:
    """The demo on toy logs."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in CHANGES:
            patch.setattr(module, name, value)
        yield settings.DemoSettings(data="michigan", logs=Path("toy"))


@pytest.fixture(scope="module")
def told(small: settings.DemoSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demo that was told to its end."""
    folder = tmp_path_factory.mktemp("told") / "demo"
    run_demo(folder, small)
    return folder


if __name__ == "__main__":
    import sys

    from crossfeed.cli import main

    for module, name, value in CHANGES:
        setattr(module, name, value)
    sys.argv[1:] = ["demo", "--data", "michigan", "toy", *sys.argv[1:]]
    main()
