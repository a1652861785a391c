"""Each mode moves exactly its part, on a copy, and low-rank corrections begin at nothing."""

import pytest
import torch

from crossfeed.errors import ConfigError
from crossfeed.evaluation.adaptation.parameters import MODES, errors_in_advance, finish, prepare, update
from crossfeed.training.optimiser import adamw
from tests.evaluation.adaptation.small_models import NetworkForecaster, tiny_world_model
from tests.evaluation.small_machine import normaliser_of, small_table, window_set

JEPA = {
    "head": {"head"},
    "predictor": {"predictor", "head"},
    "channels": {"context_encoder.row.channel"},
    "low-rank": {"context_encoder", "predictor", "head"},
    "all": {"context_encoder", "predictor", "head"},
}
SENSORS = {
    "head": {"network.head"},
    "predictor": {f"network.{part}" for part in ("decoder", "near", "step", "horizon", "head")},
    "channels": {"network.sensors"},
    "low-rank": {"network.encoder", "network.decoder", "network.head", "network"},
    "all": {"network.encoder", "network.decoder", "network.head", "network"},
}
PARTS = {"jepa": JEPA, "sensors": SENSORS}
CORRECTED = {"jepa": "predictor.state.weight", "sensors": "network.decoder.0.attention.query.weight"}


@pytest.mark.parametrize("network", PARTS)
@pytest.mark.parametrize("mode", MODES)
def test_a_mode_moves_its_part_of_the_world_model_and_nothing_else(mode: str, network: str) -> None:
    table = small_table(runs=6)
    normaliser = normaliser_of(table)
    windows = window_set(table, normaliser)
    original = tiny_world_model(normaliser, network=network)
    before = {name: values.clone() for name, values in original.model.state_dict().items()}
    prepared = prepare(original, mode)
    optimiser = adamw([(prepared.parameters, 0.0)], torch.tensor(1e-2))
    for start in (0, 64):
        batch = windows.batch(torch.arange(start, start + 64))
        update(prepared, batch, errors_in_advance(original, batch), optimiser, 1.0)
    finished = finish(prepared).module
    assert not any(parameter.requires_grad for parameter in finished.parameters()), "what has learned is frozen"
    after = finished.state_dict()
    assert after.keys() == before.keys(), "a low-rank correction is merged into plain weights"
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    for part in PARTS[network][mode]:
        assert any(name.startswith(part) for name in moved), part
    assert all(name.startswith(tuple(PARTS[network][mode])) for name in moved)
    for name, values in original.model.state_dict().items():
        assert torch.equal(values, before[name]), "the original is never touched"
    if mode == "low-rank":
        change = after[CORRECTED[network]] - before[CORRECTED[network]]
        assert int(torch.linalg.matrix_rank(change, atol=1e-5)) <= 4


@pytest.mark.parametrize("network", PARTS)
@pytest.mark.parametrize("mode", MODES)
def test_without_a_step_the_prepared_copy_forecasts_the_same_bits(mode: str, network: str) -> None:
    table = small_table(runs=6)
    normaliser = normaliser_of(table)
    batch = window_set(table, normaliser).batch(torch.arange(20))
    original = tiny_world_model(normaliser, network=network)
    copy = finish(prepare(original, mode))
    before, after = original.predict(batch), copy.predict(batch)
    assert torch.equal(before.mean, after.mean)
    assert torch.equal(before.standard_deviation, after.standard_deviation)


def test_a_baseline_names_its_own_parts_and_lacks_others() -> None:
    baseline = NetworkForecaster()
    assert prepare(baseline, "head").count == 2 * 9 * 49
    assert prepare(baseline, "all").count > prepare(baseline, "low-rank").count > 0
    with pytest.raises(
        ConfigError, match=r"'network' has no part for adapting by 'channels'[\s\S]*'low-rank' or 'all'"
    ):
        prepare(baseline, "channels")
