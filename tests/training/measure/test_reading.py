"""Reading whole windows: the same for every batch size, and for planned commands of other windows."""

import torch

from crossfeed.logs.table import Table
from crossfeed.training.data import prepare
from crossfeed.training.reading import Reading, WindowReader
from tests.training.conftest import small_config
from tests.training.test_step import make_step


def reader(table: Table, size: int, latents: bool = True) -> WindowReader:
    data = prepare([table], small_config(), torch.device("cpu"))
    return WindowReader(make_step(table).model, data.validation, "float32", size, captured=False, latents=latents)


def means(readings: list[Reading]) -> torch.Tensor:
    return torch.cat([reading.distribution.mean for reading in readings])


def test_readings_do_not_depend_on_the_size_of_a_batch(table: Table) -> None:
    index_W = torch.arange(11).flip(0)
    whole = list(reader(table, 64)(index_W))
    parts = list(reader(table, 4)(index_W))
    assert [len(reading.future_x_BHC) for reading in parts] == [4, 4, 3]
    torch.testing.assert_close(means(parts), means(whole), rtol=1e-4, atol=1e-5)
    again = reader(table, 4)
    assert torch.equal(means(list(again(index_W))), means(list(again(index_W)))), "a short last batch leaves no trace"


def test_the_first_windows_of_a_reading_are_those_of_a_smaller_batch(table: Table) -> None:
    (reading,) = reader(table, 8)(torch.arange(8))
    (small,) = reader(table, 3)(torch.arange(3))
    first = reading.first(3)
    assert torch.equal(first.future_x_BHC, small.future_x_BHC)
    assert torch.equal(first.future_m_BHC, small.future_m_BHC)
    assert first.latents is not None
    assert small.latents is not None
    for name in ("state_BD", "pooled_BD", "predicted_BHD", "target_BHD", "future_x_BHC"):
        own, wanted = getattr(first.latents, name), getattr(small.latents, name)
        torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-5)
    assert next(reader(table, 3, latents=False)(torch.arange(3))).first(2).latents is None


def test_planned_commands_may_be_those_of_other_windows(table: Table) -> None:
    read, index_W = reader(table, 8), torch.arange(8)
    own, other = means(list(read(index_W))), means(list(read(index_W, index_W.roll(4))))
    assert torch.equal(own, means(list(read(index_W, index_W))))
    assert not torch.allclose(own, other)
