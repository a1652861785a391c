"""Two processes that share a run give the numbers of one process with the whole batch."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import torch
from safetensors.torch import load_file

from crossfeed.errors import ConfigError
from crossfeed.model.interface import ProcessGroup
from crossfeed.training.hardware import process_group
from crossfeed.training.run import train
from tests.training.conftest import small_config, toy_table

COMMAND = (
    "import sys; from tests.training.devices.test_distributed import share_the_work; share_the_work(*sys.argv[1:])"
)
CASES: dict[str, dict[str, Any]] = {
    "vicreg": {},
    "sensors": {"training.finetune_epochs": 4},
}


def work(folder: str, case: str) -> None:
    """What every process does, whether it is alone or not."""
    dropout = "model.dropout" if case == "sensors" else "model.blocks.dropout"
    changes = {dropout: 0.0, "training.steps_per_epoch": 3, **CASES[case]}
    name = "crossfeed" if case == "sensors" else "mended"
    tables = [toy_table(), toy_table("other", seed=5, absent=("current_3",))]
    assert train(tables, small_config(changes, name), folder).summary["validation"]["model"]["rmse"] > 0.0


def share_the_work(folder: str, *ports: str) -> None:
    """Two processes, as torchrun would start them, work on one run after the other; each run has a port of its own."""
    other = os.fork()  # and not started anew, which would import everything again
    rank = "0" if other else "1"
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "2", "RANK": rank, "LOCAL_RANK": rank}
    for case, port in zip(CASES, ports, strict=True):
        os.environ["MASTER_PORT"] = port
        work(f"{folder}/{case}", case)
    if other:
        assert os.waitpid(other, 0)[1] == 0


@pytest.fixture(scope="module")
def worked_together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of two processes."""
    folder, ports = tmp_path_factory.mktemp("together"), []
    with ExitStack() as kept:
        for _ in CASES:
            held = kept.enter_context(socket.socket())
            # Held without listening, so that nobody else is given the port before the two listen on it.
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            ports.append(str(held.getsockname()[1]))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[3])}
        command = [sys.executable, "-c", COMMAND, str(folder), *ports]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("case", CASES)
def test_two_processes_give_the_losses_and_weights_of_one_with_the_doubled_batch(
    worked_together: Path, tmp_path: Path, case: str
) -> None:
    work(str(tmp_path / "alone"), case)
    folders = (tmp_path / "alone", worked_together / case)
    alone, shared = (
        pyarrow.parquet.read_table(folder / "history.parquet").drop_columns(
            ["train_seconds", "validation_seconds", "collapse"]
        )
        for folder in folders
    )
    assert alone.column_names == shared.column_names
    assert alone.num_rows == 4
    for name in alone.column_names:
        if name != "stage":
            found, expected = shared[name].to_pylist(), alone[name].to_pylist()
            assert [value is None for value in found] == [value is None for value in expected]
            known = [value for value in expected if value is not None]
            assert [value for value in found if value is not None] == pytest.approx(known, rel=2e-3, abs=1e-5), name
    first_stage = "model.safetensors" if case == "sensors" else "pretrained.safetensors"
    weights, others = (load_file(folder / first_stage) for folder in folders)
    # Adam makes full steps of gradients that are nothing but rounding (key biases); everything else agrees closely.
    apart = [(weights[name] - others[name]).abs().mean() for name in weights if not name.endswith("key_value.bias")]
    assert float(torch.stack(apart).max()) < 1e-5


def test_a_group_of_one_changes_nothing() -> None:
    with process_group(torch.device("cpu")) as group:
        assert group == ProcessGroup()
        assert group.leads
        assert group.agree(1.5, torch.device("cpu")) == 1.5
        group.wait()
        gradient = torch.ones(3)
        parameter = torch.nn.Parameter(torch.zeros(3))
        parameter.grad = gradient
        group.average([parameter])
        assert parameter.grad is gradient


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ConfigError, match="multiple of 3"):
        ProcessGroup(0, 3).check_batch(128)
