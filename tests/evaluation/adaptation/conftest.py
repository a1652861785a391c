"""The trained run of the evaluation tests, and a small network trained on the small machine."""

import pytest

from crossfeed.windows.normalise import Normaliser
from tests.evaluation.adaptation.small_models import NetworkForecaster
from tests.evaluation.conftest import trained_run
from tests.evaluation.small_machine import normaliser_of, small_table, window_set

__all__ = ["trained_run"]


@pytest.fixture(scope="module")
def normaliser() -> Normaliser:
    return normaliser_of(small_table(runs=12))


@pytest.fixture(scope="module")
def trained(normaliser: Normaliser) -> NetworkForecaster:
    network = NetworkForecaster()
    windows = window_set(small_table(runs=12), normaliser)
    network.fit(windows, windows, seed=0)
    return network
