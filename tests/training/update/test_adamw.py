"""Our AdamW against the library's, and the flat update against both."""

import subprocess
import sys
from pathlib import Path

import torch

from crossfeed.ingest.table import Table
from crossfeed.training.update.adamw import AdamW
from crossfeed.training.update.flat_update import FlatUpdate, update_flat
from tests.training.test_step import make_step


def test_steps_are_the_librarys_bit_for_bit() -> None:
    draws = torch.Generator().manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape, generator=draws)) for shape in ((7, 5), (5,), (3, 2))]
    theirs = [torch.nn.Parameter(parameter.detach().clone()) for parameter in ours]
    rate = torch.tensor(0.01)
    mine = AdamW([(ours[:1], 0.1), (ours[1:], 0.0)], rate)
    groups = [{"params": theirs[:1], "weight_decay": 0.1}, {"params": theirs[1:], "weight_decay": 0.0}]
    library = torch.optim.AdamW(groups, lr=rate, fused=True)
    for number in range(6):
        mine.zero_grad()
        library.zero_grad()
        for parameter, other in list(zip(ours, theirs, strict=True))[: 3 if number else 2]:
            parameter.grad = torch.randn(parameter.shape, generator=draws)
            other.grad = parameter.grad.clone()
        mine.step()
        library.step()
        rate.mul_(0.9)
    assert all(torch.equal(parameter, other) for parameter, other in zip(ours, theirs, strict=True))


def test_a_run_imports_neither_the_compiler_nor_its_algebra_nor_pandas(tmp_path: Path) -> None:
    """The library's optimisers import the first, its `skip_init` the second, pyarrow's converters the third."""
    code = (
        "import sys, torch, types\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from crossfeed.model.jepa.head import Anchor\n"
        "from crossfeed.training.update.adamw import AdamW\n"
        "import crossfeed.training.run\n"
        "parameter = torch.nn.Parameter(torch.ones(3))\n"
        "parameter.grad = torch.ones(3)\n"
        "AdamW([([parameter], 0.1)], torch.tensor(0.1)).step()\n"
        "zero = types.SimpleNamespace(sensor_names='a', zero_within=lambda reach: (np.zeros(1), np.ones(1, bool)))\n"
        "change = Anchor(4, zero, 1.0).change\n"
        "assert not change.weight.any() and not change.bias.any()\n"
        "from crossfeed.training.record.history import read_history, write_history\n"
        "write_history(Path(sys.argv[1]), [{'stage': 'only', 'epoch': 0, 'score': 0.5, 'collapse': None}])\n"
        "assert read_history(Path(sys.argv[1]))[0]['score'] == 0.5\n"
        "found = {'torch._dynamo', 'sympy', 'pandas'} & set(sys.modules)\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "history.parquet")], check=True, timeout=600)


def test_flat_update_moves_weights_moments_and_teacher_as_the_plain_step_does(table: Table) -> None:
    changes = {"training.clip_norm": 0.5, "model.blocks.dropout": 0.0, "training.weight_decay": 0.1}
    plain, flat = make_step(table, changes=changes), make_step(table, changes=changes)
    flat._finish = FlatUpdate(flat.model, flat.optimiser, 0.5, update=update_flat)
    plain()
    flat()
    torch.testing.assert_close(flat.model.state_dict(), plain.model.state_dict(), rtol=1e-5, atol=1e-7)
    for ours, theirs in zip(flat.parameters, plain.parameters, strict=True):
        torch.testing.assert_close(flat.optimiser.state[ours], plain.optimiser.state[theirs], rtol=1e-5, atol=1e-9)
    for _ in range(3):
        plain()
        flat()
    torch.testing.assert_close(flat.trace(), plain.trace(), rtol=1e-5, atol=1e-6)


def test_objectives_of_weight_0_ended_the_fast_path(table: Table) -> None:
    """A part that no loss reaches has no gradient: it stays as it is, as with the plain optimiser."""
    step = make_step(table)
    finish = FlatUpdate(step.model, step.optimiser, 1.0, update=update_flat)
    reached = dict(step.model.predictor.named_parameters())
    for parameter in step.parameters:
        parameter.grad = torch.ones_like(parameter) if any(parameter is one for one in reached.values()) else None
    before = {name: value.clone() for name, value in step.model.state_dict().items()}
    step.learning_rate.fill_(0.01)
    finish(torch.tensor(1.0))
    for name, value in step.model.state_dict().items():
        assert torch.equal(value, before[name]) != name.startswith("predictor."), name
