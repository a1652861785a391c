"""What is exported, before it is written: needs torch alone."""

import pytest
import torch

from crossfeed.front.graph import OPSET, ExportedNetwork, random_windows
from tests.front.export.conftest import KINDS, exported_model

LEVELS = (0.001, 0.05, 0.5, 0.9, 0.999)


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_of_pooled_members_were_exported_and_compared_by_nobody(kind: str) -> None:
    """Halving a bracket ends at the quantile of the mixture, not of another bell beside it."""
    network = ExportedNetwork(exported_model(kind), LEVELS)
    windows = random_windows(network.model, 5, seed=0)
    with torch.inference_mode():
        said, found = network.distribution(*windows), network(*windows)["quantiles"]
        for column, level in enumerate(LEVELS):
            torch.testing.assert_close(found[..., column], said.quantile(level), rtol=1e-3, atol=1e-4)


def test_the_runtime_of_a_gateway_that_is_years_old_still_reads_the_file() -> None:
    """Operators up to version 20 are known to onnxruntime since 1.17; a gateway is seldom brought up to date."""
    assert OPSET <= 20
