"""Toy models exported once for all tests: tracing takes some seconds."""

from pathlib import Path

import pytest

from crossfeed.model.world_model import WorldModel
from tests.model import toy

LEVELS = (0.05, 0.5, 0.95)
KINDS = ("crossfeed", "paper")


def exported_model(kind: str) -> WorldModel:
    """Two pooled members of the default network, or the paper's."""
    return toy.sensor_model() if kind == "crossfeed" else toy.model()


@pytest.fixture(scope="session")
def onnx_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file a network; the paper's gives quantiles by itself as well."""
    from crossfeed.front.export import export_model

    folder = tmp_path_factory.mktemp("exported")
    files = {}
    for kind in KINDS:
        saved = folder / f"{kind}.safetensors"
        exported_model(kind).save(saved, {"row_period": 0.5})
        files[kind] = folder / f"{kind}.onnx"
        export_model(saved, files[kind], levels=LEVELS if kind == "paper" else ())
    return files
