"""Threads beside each other: results in order, one core each, the first error ends what has not begun."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch

from crossfeed.processes import cores, in_threads


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_come_in_the_order_of_the_work(threads: int) -> None:
    found = in_threads((partial(pow, number, 2) for number in range(20)), threads)
    assert list(found) == [number**2 for number in range(20)]


def test_each_thread_has_a_core_of_its_own_and_the_caller_gets_its_own_back() -> None:
    assert set(in_threads([torch.get_num_threads] * 6, cores(torch.device("cpu")))) == {1}
    assert torch.get_num_threads() == 3
    assert cores(torch.device("cuda")) == 1


def test_an_error_ends_what_has_not_begun_and_results_nobody_took_do_not_pile_up() -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise ValueError("broken")
        return number

    def endless() -> Iterator[Callable[[], int]]:
        return (partial(work, number) for number in range(10_000))

    taken = in_threads(endless(), 2)
    assert next(taken) == 0
    with pytest.raises(ValueError, match="broken"):
        next(taken)
    assert len(begun) < 10
    assert torch.get_num_threads() == 3
