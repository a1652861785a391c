"""What all contenders share: tables, split, normaliser, windows, and the two sets they are scored on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from crossfeed.baselines.budget import Size
from crossfeed.configuration import parse
from crossfeed.errors import TableError
from crossfeed.evaluation.evaluate import EvaluationSet
from crossfeed.ingest.table import Table
from crossfeed.training.data import TrainingData, prepare
from crossfeed.training.run_config import RunConfig, preset
from crossfeed.windows.split import By
from crossfeed.windows.split_tables import DataConfig
from crossfeed.windows.windows import WindowSet

TOO_LIVELY = 10.0  # standard deviations of the train rows


@dataclass(frozen=True)
class ComparisonData:
    """Train and validation windows to learn from; source test and, if there is one, target windows to be scored on."""

    tables: tuple[Table, ...]
    config: RunConfig
    training: TrainingData
    scored: dict[str, EvaluationSet]
    identity: dict[str, object]

    def out_of_scale(self) -> dict[str, float]:
        """Sensors that move so much more where they are scored than in the train rows that they decide every mean."""
        found: dict[str, float] = {}
        for part in self.scored.values():
            x_NC, m_NC = part.windows.x_NC.double().cpu().numpy(), part.windows.m_NC.cpu().numpy()
            for column, name in enumerate(part.schema.sensor_names):
                spread = float(np.std(x_NC[m_NC[:, column], column])) if m_NC[:, column].any() else 0.0
                if spread > TOO_LIVELY:
                    found[name] = max(spread, found.get(name, 0.0))
        return found


def comparison_data(
    sources: Sequence[Table], target: Table | None, config: RunConfig, device: torch.device
) -> ComparisonData:
    """Split the source, fit the normaliser on its train rows, and window everything with it.

    The target is never split or fitted on. Sensors the source never shows are hidden in it: there is no scale for them.
    """
    training = prepare(sources, config, device)
    normaliser, model = training.normaliser, config.model
    test = training.source.windows("test", normaliser, model.context, model.horizons, config.data.stride, device)
    scored = {"source": EvaluationSet(test, training.schema, normaliser, normaliser, "session")}
    if target is not None:
        scored["target"] = target_set(sources, target, training, config, device)
    identity: dict[str, object] = {
        "sources": [table.fingerprint() for table in sources],
        "target": None if target is None else target.fingerprint(),
        "normaliser": normaliser.hash(),
        "windows": {
            "train": training.train.hash(), "validation": training.validation.hash(),
            **{name: data.windows.hash() for name, data in scored.items()},
        },
    }  # fmt: skip
    return ComparisonData(tuple(sources), config, training, scored, identity)


def target_set(
    sources: Sequence[Table], target: Table, training: TrainingData, config: RunConfig, device: torch.device
) -> EvaluationSet:
    """The windows of a table nobody learns from, as the source's normaliser sees them."""
    normaliser, model = training.normaliser, config.model
    _check_target(sources, target, normaliser.unseen)
    hidden = [name for name in normaliser.unseen if name in training.schema.sensor_names]
    windows = WindowSet.build(
        target, None, normaliser, model.context, model.horizons, config.data.stride, device, hidden=hidden
    )
    return EvaluationSet(windows, training.schema, normaliser, normaliser, "run")


def config_of(size: Size, split_by: By, stride: int = 1) -> RunConfig:
    """The windows of a comparison: those of the default preset, split and thinned as asked."""
    data = parse(DataConfig, {"split_by": split_by, "stride": stride}, "The request")
    return preset("crossfeed", size).model_copy(update={"data": data})


def _check_target(sources: Sequence[Table], target: Table, unseen: Sequence[str]) -> None:
    schema = sources[0].schema
    if target.schema.fingerprint != schema.fingerprint:
        raise TableError(
            f"The target has the schema '{target.schema.name}', the source '{schema.name}'.",
            expected="one schema for both; a machine that lacks a channel leaves it empty",
            remedy="Ingest both machines with the same schema.",
        )
    pairs = zip(schema.sensor_names, target.present(), strict=True)
    if not [name for name, present in pairs if present and name not in unseen]:
        raise TableError(
            "The target shows no sensor that the source shows, so nothing can be scored on it.",
            expected="at least one sensor with values in both tables",
            remedy="Check the column mapping of the machines.",
        )
