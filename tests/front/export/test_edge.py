"""Beside the machine: the same forecasts, checks and errors as the model's own, with numpy and onnxruntime alone."""

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crossfeed
from crossfeed.edge import EdgeModel, sealed
from crossfeed.errors import CheckpointError, ConfigError, CrossfeedError
from tests.front.export.conftest import KINDS, exported_model
from tests.model import toy

for library in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(library, reason="the extra 'export' is not installed")

NAMES = toy.SCHEMA.sensor_names + toy.SCHEMA.command_names


def _rows(names: tuple[str, ...], shape: tuple[int, ...], seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.normal(3.0, 2.0, size=shape) for name in names}


def _history(*shape: int) -> dict[str, np.ndarray]:
    return _rows(NAMES, shape or (8,), 0)


def _plan(*shape: int) -> dict[str, np.ndarray]:
    return _rows(toy.SCHEMA.command_names, shape or (4,), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_in_physical_units_are_those_of_the_model(onnx_files: dict[str, Path], kind: str) -> None:
    model, edge = exported_model(kind), EdgeModel(onnx_files[kind])
    history, plan = _history(7, 12), _plan(7, 9)
    history["current_2"][:, 5:9] = np.nan
    del history["current_4"]
    levels = [0.001, 0.05, 0.5, 0.9, 0.9999]
    for horizons in (None, [2], [4, 1]):
        here, there = edge.forecast(history, plan, horizons), model.forecast(history, plan, horizons)
        assert (here.horizons, here.sensors, here.measured) == (there.horizons, there.sensors, there.measured)
        scale = model.normaliser.sensor_scale
        for found, wanted in (
            (here.mean, there.mean),
            (here.standard_deviation, there.standard_deviation),
            (here.median, there.median),
            (here.quantiles(levels), there.quantiles(levels)),
        ):
            assert found.shape == wanted.shape
            assert np.abs((found - wanted) / scale).max() <= 1e-4
    single = edge.forecast({name: values[0] for name, values in history.items()}, {n: v[0] for n, v in plan.items()})
    np.testing.assert_allclose(single.mean, edge.forecast(history, plan).mean[0], rtol=1e-5, atol=1e-5)
    assert single.units == ("A",) * 5
    assert (edge.period, edge.context) == (0.5, 8)


def test_arrays_in_schema_order_and_dicts_agree(onnx_files: dict[str, Path]) -> None:
    edge, history, plan = EdgeModel(onnx_files["crossfeed"]), _history(), _plan()
    by_array = edge.forecast(
        np.stack([history[name] for name in NAMES], -1), np.stack([plan[name] for name in plan], -1)
    )
    assert np.array_equal(by_array.mean, edge.forecast(history, plan).mean)


BAD = [
    (_history(7), _plan(), None),
    (_history(), _plan(3), None),
    (_history(), _plan(), [5]),
    (_history(), _plan(), [0]),
    (_history(), _plan(), []),
    ({"feed_0": np.zeros(8), "feed_1": np.zeros(8)}, _plan(), None),
    ({"speed": np.zeros(8)}, _plan(), None),
    ({**_history(), "feed_1": np.full(8, np.nan)}, _plan(), None),
    (_history(), {"feed_0": np.zeros(4)}, None),
    ({**_history(), "current_1": np.full(8, np.inf)}, _plan(), None),
    ({**_history(), "current_1": np.full(8, 1e39)}, _plan(), None),
    (_history(), {**_plan(), "feed_0": np.full(4, 1e39)}, None),
    ({**_history(), "current_1": ["a"] * 8}, _plan(), None),
    ({**_history(), "current_1": np.zeros(9)}, _plan(), None),
    (np.zeros((8, 6)), _plan(), None),
    ([], _plan(), None),
    (_history(3, 8), _plan(2, 4), None),
]


@pytest.mark.parametrize(("history", "plan", "horizons"), BAD)
def test_bad_input_gets_the_same_error_as_from_the_model(
    onnx_files: dict[str, Path], history: Any, plan: Any, horizons: Any
) -> None:
    with pytest.raises(CrossfeedError) as wanted:
        exported_model("crossfeed").forecast(history, plan, horizons)
    with pytest.raises(CrossfeedError) as found:
        EdgeModel(onnx_files["crossfeed"]).forecast(history, plan, horizons)
    assert (type(found.value), str(found.value)) == (type(wanted.value), str(wanted.value))


def test_horizons_and_quantiles_that_do_not_exist_are_refused(onnx_files: dict[str, Path]) -> None:
    edge = EdgeModel(onnx_files["crossfeed"])
    with pytest.raises(ConfigError, match="knows no horizon 3"):
        edge.forecast(_history(), _plan(), [3])
    with pytest.raises(ConfigError, match="levels between 0 and 1"):
        edge.forecast(_history(), _plan()).quantiles([1.0])


def test_every_flipped_byte_and_every_cut_is_found(onnx_files: dict[str, Path], tmp_path: Path) -> None:
    content, damaged = onnx_files["crossfeed"].read_bytes(), tmp_path / "damaged.onnx"
    random = np.random.default_rng(0)
    places = {0, len(content) - 1, len(content) - 70, *random.integers(0, len(content), 100).tolist()}
    for place in sorted(places):
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(CheckpointError):
            EdgeModel(damaged)
    for length in (0, 10, len(content) // 2, len(content) - 76, len(content) - 1):
        damaged.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            EdgeModel(damaged)
    damaged.write_bytes(content + b"x")
    with pytest.raises(CheckpointError):
        EdgeModel(damaged)
    damaged.write_bytes(sealed(b"no model"))
    with pytest.raises(CheckpointError, match="cannot open"):
        EdgeModel(damaged)
    with pytest.raises(CheckpointError, match="cannot be read"):
        EdgeModel(tmp_path / "none.onnx")


ALONE = """
import importlib.util, sys
for name in ("torch", "polars", "pydantic", "scipy", "pyarrow", "typer", "onnx", "yaml"):
    assert importlib.util.find_spec(name) is None, name
import numpy as np
from crossfeed.edge import EdgeModel
from crossfeed.errors import TableError
model = EdgeModel(sys.argv[1])
history = {name: np.arange(8.0) for name in model.sensors[:3] + model.commands}
plan = {name: [1.0] * 4 for name in model.commands}
said = model.forecast(history, plan)
try:
    model.forecast({"speed": [1.0]}, plan)
except TableError as error:
    assert "none of the columns" in str(error)
else:
    raise AssertionError
np.save(sys.argv[2], np.concatenate([said.mean[None], said.quantiles([0.05, 0.95])]))
"""


def test_an_environment_without_torch_polars_and_pydantic_is_enough(
    onnx_files: dict[str, Path], tmp_path: Path
) -> None:
    """A real virtual environment that holds numpy, onnxruntime and this package, and nothing else."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    only = tmp_path / "only"
    only.mkdir()
    import onnxruntime

    for module in (np, onnxruntime, crossfeed):
        folder = Path(str(module.__file__)).parent
        (only / folder.name).symlink_to(folder)
        libraries = folder.with_name(f"{folder.name}.libs")
        if libraries.is_dir():
            (only / libraries.name).symlink_to(libraries)
    python = tmp_path / "bare" / ("Scripts" if os.name == "nt" else "bin") / Path(sys.executable).name
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        [python, "-c", ALONE, str(onnx_files["crossfeed"]), str(tmp_path / "said.npy")],
        env=environment | {"PYTHONPATH": str(only)}, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    edge = EdgeModel(onnx_files["crossfeed"])
    history = {name: np.arange(8.0) for name in edge.sensors[:3] + edge.commands}
    here = edge.forecast(history, {name: [1.0] * 4 for name in edge.commands})
    found = np.load(tmp_path / "said.npy")
    np.testing.assert_allclose(found, np.concatenate([here.mean[None], here.quantiles([0.05, 0.95])]), rtol=1e-6)


def test_a_sensor_that_the_model_never_learned_was_read_at_the_edge(onnx_files: dict[str, Path]) -> None:
    edge, history, plan = EdgeModel(onnx_files["crossfeed"]), _history(), _plan()
    edge._unseen = np.isin(edge.sensors, ["current_1"])
    there = edge.forecast(history, plan)
    del history["current_1"]
    without = edge.forecast(history, plan)
    assert "current_1" not in there.measured
    np.testing.assert_array_equal(there.mean, without.mean)


def test_a_printed_forecast_was_seven_hundred_lines(onnx_files: dict[str, Path]) -> None:
    edge = EdgeModel(onnx_files["crossfeed"])
    assert "4 rows ahead" in repr(edge)
    assert len(repr(edge.forecast(_history(), _plan()))) < 200
