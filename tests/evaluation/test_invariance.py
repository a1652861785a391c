"""How well the machine can be told from a representation: perfectly, or not at all."""

import pytest
import torch
from torch import Tensor

from crossfeed.evaluation.bundle import machine_invariance
from crossfeed.training.data import prepare
from crossfeed.windows.windows import WindowBatch, WindowSet
from tests.training.conftest import small_config, toy_table


class Representing:
    """Stands for a model: any function of a batch as its representation."""

    def __init__(self, representation: object) -> None:
        self.representation = representation

    def eval(self) -> None:
        pass


def sides() -> tuple[WindowSet, WindowSet]:
    tables = [toy_table("a"), toy_table("b", seed=5), toy_table("c", seed=6, absent=("current_3",))]
    data = prepare(tables, small_config(), torch.device("cpu"))
    return data.train, data.validation


def name_tag(batch: WindowBatch) -> Tensor:
    """Nothing but whose window it is."""
    return torch.nn.functional.one_hot(batch.machine_B, 3).float()


def noise(batch: WindowBatch) -> Tensor:
    """Nothing but the number of the window, well stirred."""
    return torch.stack([((batch.last_index_B * prime) % 97).float() for prime in (31, 57, 83)], 1)


def test_a_representation_that_names_the_machine_leaks_everything_and_noise_nothing() -> None:
    fit, test = sides()
    named = machine_invariance(Representing(name_tag), fit, test)  # type: ignore[arg-type]
    assert named is not None
    assert named["machines"] == 3
    assert (named["accuracy"], named["leakage"]) == (1.0, pytest.approx(1.0))
    blind = machine_invariance(Representing(noise), fit, test)  # type: ignore[arg-type]
    assert blind is not None
    assert abs(blind["leakage"]) < 0.2
    assert blind["accuracy_from_inputs"] > blind["accuracy"], "a sensor less is seen in the inputs"


def test_one_machine_cannot_be_told_from_itself() -> None:
    data = prepare([toy_table()], small_config(), torch.device("cpu"))
    assert machine_invariance(Representing(noise), data.train, data.validation) is None  # type: ignore[arg-type]
