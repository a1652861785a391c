"""The network as one function of a window and a plan, and that function as an ONNX graph.

B windows, K context rows, T planned steps, H horizons, C sensors, A commands, Q quantiles.
"""

import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from statistics import NormalDist
from typing import Any, cast

import torch
from torch import Tensor, nn

from crossfeed.edge import INPUTS
from crossfeed.errors import ConfigError, need
from crossfeed.model.distribution import Distribution, Gaussian, Mixture
from crossfeed.model.distribution.distribution import floored, tensors_of
from crossfeed.model.interface import Plan
from crossfeed.model.world_model import WorldModel

OPSET = 20
LARGEST_BATCH = 65_536
TRACED_BATCH = 3
HALVINGS = 30  # of a bracket, in float32
FAMILIES = (Gaussian, Mixture)
WindowTensors = tuple[Tensor, Tensor, Tensor, Tensor]


class ExportedNetwork(nn.Module):
    """Sensors, presence, commands and a plan in z-units in; mean, parameters and quantiles at all horizons out."""

    model: WorldModel
    normal_Q: Tensor
    level_Q: Tensor

    def __init__(self, model: WorldModel, levels: Sequence[float] = (), members: int | None = None) -> None:
        super().__init__()
        self.model = model.eval()
        self.members = nn.ModuleList(model.member(number) for number in range(_so_many(model, members)))
        normal_Q = torch.tensor([NormalDist().inv_cdf(level) for level in levels])
        self.register_buffer("normal_Q", normal_Q, persistent=False)
        self.register_buffer("level_Q", torch.tensor(list(levels)), persistent=False)

    def distribution(self, x_BKC: Tensor, m_BKC: Tensor, a_BKA: Tensor, plan_BTA: Tensor) -> Distribution:
        """What the model says, every parameter at its full shape: member by member, each by plain products."""
        plan = Plan.under(plan_BTA, self.model.horizons)
        parts = [
            member.decode(member.encode(x_BKC, m_BKC, a_BKA), plan).distribution.broadcast()
            for member in cast(Iterable[WorldModel], self.members)
        ]
        return cast(Mixture, Mixture.stack(parts)).pooled() if len(parts) > 1 else parts[0]

    def forward(self, x_BKC: Tensor, m_BKC: Tensor, a_BKA: Tensor, plan_BTA: Tensor) -> dict[str, Tensor]:
        distribution = self.distribution(x_BKC, m_BKC, a_BKA, plan_BTA)
        outputs = {"mean": distribution.mean, **tensors_of(distribution)}
        if len(self.level_Q):
            outputs["quantiles"] = self._quantiles(distribution)
        return outputs

    def _quantiles(self, distribution: Distribution) -> Tensor:
        """All levels along a last axis, found by halving a bracket a fixed number of times."""
        if isinstance(distribution, Gaussian):
            return distribution.mean.unsqueeze(-1) + distribution.scale.unsqueeze(-1) * self.normal_Q
        assert isinstance(distribution, Mixture)
        weight, mean, scale = (
            part.unsqueeze(-2) for part in (distribution.weight_M, distribution.mean_M, floored(distribution.scale_M))
        )
        gaussian = mean + scale * self.normal_Q.unsqueeze(-1)
        low, high = gaussian.amin(-1), gaussian.amax(-1)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            z = (middle.unsqueeze(-1) - mean) / scale
            below = (weight * 0.5 * (1.0 + torch.erf(z * 0.5**0.5))).sum(-1) < self.level_Q
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return 0.5 * (low + high)


def _so_many(model: WorldModel, members: int | None) -> int:
    """How many members are exported: the first of them, or all."""
    if members is not None and not 1 <= members <= model.members:
        raise ConfigError(
            f"{members} members of this model cannot be exported.",
            expected=f"1 to {model.members}, the number of its members",
        )
    return members or model.members


def random_windows(model: WorldModel, batch: int, seed: int) -> WindowTensors:
    """Windows as a machine could show them: gaps, absent sensors, commands that stand for a while."""
    draw = torch.Generator().manual_seed(seed)
    context, sensors = model.config.context, len(model.schema.sensors)
    commands, longest = len(model.schema.commands), model.horizons[-1]
    present_BKC = torch.rand(batch, context, sensors, generator=draw) < 0.8
    present_BKC &= torch.rand(batch, 1, sensors, generator=draw) < 0.7
    present_BKC[:, -1, 0] = True
    x_BKC = torch.randn(batch, context, sensors, generator=draw) + torch.randn(batch, 1, sensors, generator=draw)
    rows = context + longest
    standing_BRA = torch.from_numpy(model.normaliser.transform_commands(torch.zeros(1, 1, commands).numpy())).float()
    held_BRA = torch.randn(batch, rows // 4 + 1, commands, generator=draw).repeat_interleave(4, 1)[:, :rows]
    stands_B11 = torch.rand(batch, rows, commands, generator=draw) < 0.3
    a_BRA = torch.where(stands_B11, standing_BRA, held_BRA)
    return torch.where(present_BKC, x_BKC, 0.0), present_BKC, a_BRA[:, :context], a_BRA[:, context:]


def to_onnx(network: ExportedNetwork) -> Any:
    """The network as an ONNX model that takes any batch; refuses what cannot be written as one."""
    for package in ("onnx", "onnxscript"):
        need(package, "Exporting", "export")
    windows = random_windows(network.model, TRACED_BATCH, seed=0)
    with torch.no_grad():
        distribution = network.distribution(*windows)
    if not isinstance(distribution, FAMILIES):
        raise ConfigError(
            f"A forecast of the family {type(distribution).__name__} cannot be exported.",
            expected="a Gaussian head (likelihood nll or beta_nll) or a mixture",
            remedy="Use this model with crossfeed itself.",
        )
    batch = torch.export.Dim("batch", min=1, max=LARGEST_BATCH)
    try:
        with _silence(), torch.no_grad():
            # Traced by hand first: left to itself the exporter fixes the batch without a word when it must.
            traced = torch.export.export(network, windows, dynamic_shapes=({0: batch},) * len(INPUTS), strict=False)
            names = list(network(*windows))
            # Its optimiser drops additions of 1e-8 as if they were zero; onnxruntime optimises again when it loads.
            program = torch.onnx.export(
                traced, dynamo=True, opset_version=OPSET, input_names=INPUTS, output_names=names, optimize=False,
                verbose=False,
            )  # fmt: skip
    except Exception as error:  # the tracer reports an unwritable operation by many types
        first = str(error).strip().splitlines()
        raise ConfigError(
            f"This network cannot be exported: {type(error).__name__}: {first[0] if first else ''}",
            expected="a network of the crossfeed or the paper preset",
        ) from error
    assert program is not None
    return _bare(program.model_proto)


def _bare(model: Any) -> Any:
    """Without the exporter's remarks, which hold paths of the machine that exported."""
    for part in (model, model.graph, *model.functions):
        part.doc_string = ""
        del part.metadata_props[:]
    for owner in (model.graph, *model.functions):
        for item in (*owner.node, *owner.value_info):
            item.doc_string = ""
            del item.metadata_props[:]
    for item in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        item.doc_string = ""
        del item.metadata_props[:]
    return model


@contextmanager
def _silence() -> Iterator[None]:
    """The exporter talks about libraries that are not needed here."""
    speakers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [speaker.level for speaker in speakers]
    try:
        for speaker in speakers:
            speaker.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for speaker, level in zip(speakers, levels, strict=True):
            speaker.setLevel(level)
