"""An exported file says what torch says, whatever is asked of it, and what cannot be exported is refused."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from crossfeed.cli import app
from crossfeed.edge import EdgeModel
from crossfeed.errors import ConfigError
from crossfeed.evaluation.setup import SourceData
from crossfeed.front.export import TOLERANCE, Price, check_export, export_model, in_int8, largest_difference
from crossfeed.front.graph import ExportedNetwork, random_windows, to_onnx
from crossfeed.model.model_file import read_model_file
from crossfeed.model.sensors.model import SensorModel
from crossfeed.model.world_model import WorldModel
from tests.evaluation.conftest import small_config
from tests.evaluation.small_machine import small_table
from tests.front.export.conftest import KINDS, LEVELS, exported_model
from tests.model import toy

for library in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(library, reason="the extra 'export' is not installed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 2, 3, 7, 128])
def test_every_batch_and_mask_agrees_with_torch(onnx_files: dict[str, Path], kind: str, batch: int) -> None:
    levels = LEVELS if kind == "paper" else ()
    network, exported = ExportedNetwork(exported_model(kind), levels), EdgeModel(onnx_files[kind])
    assert max(largest_difference(exported, network, batch, seed) for seed in range(20)) <= TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_says_what_it_is(onnx_files: dict[str, Path], kind: str) -> None:
    import onnx

    path, model = onnx_files[kind], exported_model(kind)
    stored = onnx.load(path)
    onnx.checker.check_model(stored)
    properties = {entry.key: entry.value for entry in stored.metadata_props}
    content = json.loads(properties["crossfeed"])
    file = read_model_file(path.with_suffix(".safetensors"))
    assert content["hashes"]["model"] == file.sha256
    assert content["hashes"]["normaliser"] == model.normaliser.hash()
    assert content["schema"] == model.schema.model_dump(mode="json")
    assert content["normaliser"] == json.loads(model.normaliser.to_json())
    assert content["units"]["current_3"] == "A"
    assert (content["period"], content["context"], content["horizons"]) == (0.5, 8, [1, 2, 4])
    assert content["family"] == ("Mixture" if kind == "crossfeed" else "Gaussian")
    assert properties["sha256"] == hashlib.sha256(path.read_bytes()[:-76]).hexdigest()


def test_no_line_of_source_code_travels_with_the_file(onnx_files: dict[str, Path]) -> None:
    import onnx

    for path in onnx_files.values():
        content, graph = path.read_bytes(), onnx.load(path).graph
        assert b".py" not in content
        assert not any(node.metadata_props or node.doc_string for node in graph.node)


def test_an_export_that_differs_from_torch_is_refused(onnx_files: dict[str, Path]) -> None:
    other = toy.sensor_model(seed=1)
    with pytest.raises(ConfigError, match="differs from torch"):
        check_export(EdgeModel(onnx_files["crossfeed"]), ExportedNetwork(other))


def test_a_network_that_fixes_the_batch_is_refused_and_not_specialised_in_silence() -> None:
    from crossfeed.front.graph import to_onnx

    class Fixed(ExportedNetwork):
        def forward(
            self, x_BKC: torch.Tensor, m_BKC: torch.Tensor, a_BKA: torch.Tensor, plan_BTA: torch.Tensor
        ) -> dict[str, torch.Tensor]:
            said = super().forward(x_BKC, m_BKC, a_BKA, plan_BTA)
            return {name: values + len(x_BKC) for name, values in said.items()}

    with pytest.raises(ConfigError, match="cannot be exported"):
        to_onnx(Fixed(toy.model()))


def test_int8_needs_data_and_its_price_is_refused_above_one_per_cent(tmp_path: Path) -> None:
    toy.model().save(tmp_path / "model.safetensors", {})
    with pytest.raises(ConfigError, match="cannot be told without data"):
        export_model(tmp_path / "model.safetensors", tmp_path / "model.onnx", int8=True)
    Price(100, 0.2, 0.2019).check(force=False)
    Price(100, 0.2, 0.19).check(force=False)
    Price(100, 0.2, 0.25).check(force=True)
    with pytest.raises(ConfigError, match=r"grows by 5\.0 %"):
        Price(100, 0.2, 0.21).check(force=False)


def test_several_members_run_in_int8(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Members with one batched product could be written in int8, but no session would run the file."""
    import onnxruntime

    model = toy.sensor_model(toy.sensor_method({"model.members": 2, "model.width": 32}))
    network = ExportedNetwork(model)
    session = onnxruntime.InferenceSession(in_int8(to_onnx(network), tmp_path).SerializeToString())
    assert "pre-processing" not in caplog.text, "a library asked the user for a step that is ours"
    windows = random_windows(model, 4, seed=1)
    given = {entry.name: tensor.numpy() for entry, tensor in zip(session.get_inputs(), windows, strict=True)}
    (mean,) = session.run(["mean"], given)
    with torch.no_grad():
        wanted = network.distribution(*windows)
    assert float((torch.from_numpy(mean) - wanted.mean).abs().max()) < 0.3 * float(wanted.standard_deviation.mean())


def two_members() -> SensorModel:
    """Two members of the default network for the small machine; a little noise makes each say something of its own."""
    torch.manual_seed(0)
    table = small_table(runs=14, rows=60)
    config = small_config().model.model_copy(update={"members": 2})
    model = WorldModel.build(config, table.schema, SourceData.of([table], small_config().data).space).eval()
    assert isinstance(model, SensorModel)
    with torch.no_grad():
        model.network.head.linear.weight.normal_(std=0.1)
    return model


def test_the_first_member_alone_says_what_it_says_in_torch(tmp_path: Path) -> None:
    model = two_members()
    model.save(tmp_path / "model.safetensors", {"row_period": 1.0})
    both, alone = (
        export_model(tmp_path / "model.safetensors", tmp_path / f"{members}.onnx", members=members)
        for members in (None, 1)
    )
    assert (both.metadata["members"], alone.metadata["members"]) == (2, 1)
    assert alone.bytes < 0.7 * both.bytes
    assert largest_difference(EdgeModel(alone.path), ExportedNetwork(model.member(0)), 7, seed=1) <= TOLERANCE
    assert largest_difference(EdgeModel(alone.path), ExportedNetwork(model.member(1)), 7, seed=1) > TOLERANCE


@pytest.mark.parametrize("members", [0, 3, -1])
def test_members_that_a_model_does_not_have_are_refused(tmp_path: Path, members: int) -> None:
    two_members().save(tmp_path / "model.safetensors", {"row_period": 1.0})
    with pytest.raises(ConfigError, match=f"{members} members of this model"):
        export_model(tmp_path / "model.safetensors", tmp_path / "model.onnx", members=members)
    assert not (tmp_path / "model.onnx").exists()


def test_a_table_tells_what_fewer_members_and_int8_cost(tmp_path: Path) -> None:
    two_members().save(tmp_path / "model.safetensors", {"row_period": 1.0})
    small_table(runs=4, rows=60, seed=3).write(tmp_path / "table.parquet")
    words = ["export", str(tmp_path / "model.safetensors"), "--out", str(tmp_path / "model.onnx"), "--members", "1"]
    words += ["--int8", "--force", "--table", str(tmp_path / "table.parquet")]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    prices = EdgeModel(tmp_path / "model.onnx").metadata["prices"]
    assert set(prices) == {"members", "int8"}
    assert prices["members"]["after"] == prices["int8"]["before"] != prices["members"]["before"]
    for cost, after in ((prices["members"], "of 1 member"), (prices["int8"], "in int8")):
        assert f"{cost['after']:.4f} {after} ({100 * (cost['after'] / cost['before'] - 1.0):+.2f} %)" in found.output


def test_the_command_prints_one_document(tmp_path: Path) -> None:
    toy.sensor_model().save(tmp_path / "model.safetensors", {"row_period": 0.5})
    words = ["export", str(tmp_path / "model.safetensors"), "--out", str(tmp_path / "model.onnx"), "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    content = json.loads(found.stdout)
    assert Path(content["path"]).stat().st_size == content["bytes"]
    assert content["difference"] <= TOLERANCE
