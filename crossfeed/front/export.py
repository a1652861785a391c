"""From a model file to one ONNX file: traced, checked against torch, priced, sealed with its hash."""

import json
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crossfeed.edge import FORMAT, INPUTS, EdgeModel, sealed
from crossfeed.errors import ConfigError, need
from crossfeed.evaluation.forecaster import Forecaster
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.evaluation.opened_model import OpenedModel, open_model
from crossfeed.evaluation.setup import set_up
from crossfeed.files import __version__, atomic_file
from crossfeed.front.graph import OPSET, ExportedNetwork, random_windows, to_onnx
from crossfeed.logs.align import as_table
from crossfeed.model.distribution import Distribution, Gaussian, Mixture
from crossfeed.model.distribution.distribution import tensors_of
from crossfeed.progress import progress
from crossfeed.rows import check_levels
from crossfeed.windows.windows import WindowBatch

BATCHES = (1, 2, 7, 128)
TOLERANCE = 1e-4  # in z-units, and in probability for quantiles
HIGHEST_PRICE = 0.01
PRICED_WINDOWS = 2500


@dataclass(frozen=True)
class Price:
    """CRPS on given windows before a model was made smaller and after."""

    windows: int
    before: float
    after: float

    @property
    def share(self) -> float:
        """By which part the CRPS grew."""
        return self.after / self.before - 1.0

    def check(self, force: bool) -> None:
        """Refuse int8 that costs too much, unless it is wanted all the same."""
        if self.share > HIGHEST_PRICE and not force:
            raise ConfigError(
                f"In int8 the CRPS grows by {100 * self.share:.1f} % ({self.before:.4f} to {self.after:.4f} on "
                f"{self.windows} windows).",
                expected=f"at most {100 * HIGHEST_PRICE:g} %",
                remedy="Export in float32, or take it all the same with --force.",
            )


@dataclass(frozen=True)
class Export:
    """What was written, how far it is from torch in z-units, and what `members` or `int8` cost where they are fewer."""

    path: Path
    bytes: int
    difference: float
    metadata: dict[str, Any]
    prices: dict[str, Price]


def export_model(
    model: Path | str | OpenedModel,
    out: Path | str,
    *,
    levels: Sequence[float] = (),
    members: int | None = None,
    int8: bool = False,
    table: Path | str | None = None,
    force: bool = False,
) -> Export:
    """Write `out`; with `int8`, a `table` says what the smaller weights cost, and too much is refused.

    `members`: the first so many alone, each of which takes its share of the time; a `table` says what that costs.
    """
    need("onnxruntime", "Exporting", "export")
    if levels:
        check_levels(levels)
    if int8 and table is None:
        raise ConfigError(
            "The price of int8 cannot be told without data.",
            expected="--table TABLE.parquet: rows on which the CRPS is compared",
        )
    opened = model if isinstance(model, OpenedModel) else open_model(model, "cpu")
    network = ExportedNetwork(opened.model, levels, members)
    fewer = len(network.members) < opened.model.members
    data = set_up(opened, as_table(table, opened.model.schema)).data if table and (int8 or fewer) else None
    metadata = describe(opened, network)
    with tempfile.TemporaryDirectory() as folder, progress("Exporting", 4 if int8 else 3) as task:
        graph = to_onnx(network)
        task.advance(1)
        graph = folded(graph, Path(folder))
        single = Path(folder) / "float32.onnx"
        single.write_bytes(file_bytes(graph, metadata))
        task.advance(1)
        difference = check_export(EdgeModel(single), network)
        metadata |= {"difference": difference}
        task.advance(1)
        prices, exact = dict[str, Price](), ExportedForecaster(EdgeModel(single), "float32")
        if data is not None and fewer:
            prices["members"] = price(opened.forecaster, exact, data)
        if int8:
            assert data is not None
            metadata |= {"precision": "int8"}
            graph, small = in_int8(graph, Path(folder)), Path(folder) / "int8.onnx"
            small.write_bytes(file_bytes(graph, metadata))
            prices["int8"] = price(exact, ExportedForecaster(EdgeModel(small), "int8"), data)
            prices["int8"].check(force)
            task.advance(1)
    metadata |= {"prices": {what: asdict(cost) for what, cost in prices.items()}}
    content = file_bytes(graph, metadata)
    with atomic_file(out) as temporary:
        temporary.write_bytes(content)
    return Export(Path(out), len(content), difference, metadata, prices)


def describe(opened: OpenedModel, network: ExportedNetwork) -> dict[str, Any]:
    """All that a reader of the file needs beside the graph."""
    model = opened.model
    with torch.inference_mode():
        family = type(network.distribution(*random_windows(model, 1, seed=0))).__name__
    return {
        "schema": model.schema.model_dump(mode="json"),
        "units": {channel.name: channel.unit for channel in model.schema.channels},
        "normaliser": json.loads(model.normaliser.to_json()),
        "period": opened.provenance.get("row_period"),
        "context": model.config.context,
        "horizons": list(model.horizons),
        "family": family,
        "quantiles": [round(level, 6) for level in network.level_Q.tolist()],
        "network": model.config.network,
        "members": len(network.members),
        "precision": "float32",
        "inputs": list(INPUTS),
        "hashes": {
            "model": opened.sha256,
            "schema": model.schema.fingerprint,
            "normaliser": model.normaliser.hash(),
            "fitted_on": model.normaliser.fitted_on,
        },
        "crossfeed": __version__,
        "opset": OPSET,
    }


def folded(model: Any, folder: Path) -> Any:
    """What is constant computed once and for all, by the library that will run it; plain ONNX in and out."""
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath, options.log_severity_level = str(folder / "folded.onnx"), 3
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "folded.onnx")


def in_int8(model: Any, folder: Path) -> Any:
    """The same model with the weights of its products in eight bits, one scale for each column."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(model, before)
    logging.disable(logging.WARNING)  # it asks for a step of its own that was done already
    try:
        quantize_dynamic(before, after, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul"])
    finally:
        logging.disable(logging.NOTSET)
    return onnx.load(after)


def file_bytes(model: Any, metadata: dict[str, Any]) -> bytes:
    import onnx

    described = onnx.ModelProto()
    described.CopyFrom(model)
    used = {"", *(node.domain for node in described.graph.node)}
    kept = [entry for entry in described.opset_import if entry.domain in used]
    del described.opset_import[:], described.metadata_props[:]
    described.opset_import.extend(kept)
    described.producer_name, described.producer_version = "crossfeed", __version__
    onnx.helper.set_model_props(
        described, {"format": FORMAT, "crossfeed": json.dumps(metadata, sort_keys=True, ensure_ascii=False)}
    )
    return sealed(described.SerializeToString(deterministic=True))


def largest_difference(exported: EdgeModel, network: ExportedNetwork, batch: int, seed: int) -> float:
    """Between mean, parameters and quantiles here and there, over random windows with random gaps.

    Log-weights are compared as weights, quantiles by the probability that lies below them: between two components that
    stand far apart a quantile may lie anywhere without any difference to the forecast.
    """
    windows = random_windows(network.model, batch, seed)
    x_BKC, m_BKC, a_BKA, plan_BTA = windows
    exported_values = exported.run(np.where(m_BKC.numpy(), x_BKC.numpy(), np.nan), a_BKA.numpy(), plan_BTA.numpy())
    with torch.inference_mode():
        distribution = network.distribution(*windows).double()
    wanted = {"mean": distribution.mean, **tensors_of(distribution)}
    worst = 0.0
    for name, values in exported_values.items():
        here = torch.from_numpy(values).double()
        if name == "quantiles":
            for place, level in enumerate(network.level_Q.tolist()):
                worst = max(worst, float((distribution.cdf(here[..., place]) - level).abs().max()))
        elif name == "log_weight_M":
            worst = max(worst, float((here.softmax(-1) - wanted[name].softmax(-1)).abs().max()))
        else:
            worst = max(worst, float((here - wanted[name]).abs().max()))
    return worst if np.isfinite(worst) else float("inf")


def check_export(exported: EdgeModel, network: ExportedNetwork) -> float:
    """The largest difference to torch; one that matters is refused."""
    worst = max(largest_difference(exported, network, batch, seed=batch) for batch in BATCHES)
    if worst > TOLERANCE:
        raise ConfigError(
            f"The exported network differs from torch by {worst:.2g} z-units.",
            expected=f"at most {TOLERANCE:g}",
            remedy="Nothing was written. Use this model with crossfeed itself.",
        )
    return worst


class ExportedForecaster(Forecaster):
    """What onnxruntime says, as the distribution it stands for."""

    uses_future_commands = True

    def __init__(self, model: EdgeModel, name: str) -> None:
        self.model, self.name = model, name

    def predict(self, batch: WindowBatch) -> Distribution:
        x_BKC = torch.where(batch.m_BKC, batch.x_BKC, torch.nan)
        inputs = (values.cpu().numpy() for values in (x_BKC, batch.a_BKA, batch.future_a_BTA))
        part = {name: torch.from_numpy(values) for name, values in self.model.run(*inputs).items()}
        if self.model.family == "Gaussian":
            return Gaussian(part["mean"], part["scale"])
        return Mixture(part["log_weight_M"], part["mean_M"], part["scale_M"])


def price(before: Forecaster, after: Forecaster, data: EvaluationSet) -> Price:
    """What the windows of a table say about the two, known before anything is written."""
    chosen = data.sample(PRICED_WINDOWS)
    before_crps, after_crps = (score_windows(each, data, chosen).metrics()["crps"] for each in (before, after))
    if before_crps is None or after_crps is None or before_crps <= 0.0:
        raise ConfigError("The table has no measured value to compare forecasts with.", remedy="Give another table.")
    return Price(len(chosen), before_crps, after_crps)
