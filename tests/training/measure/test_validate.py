"""The validation protocol: fixed, deterministic, scale-free where it says so."""

from typing import Any

import pytest
import torch

from crossfeed.logs.table import Table
from crossfeed.model.interface import Stage
from crossfeed.training.data import prepare
from crossfeed.training.health import latent_health
from crossfeed.training.validate import ErrorOverVariance, Validator
from tests.training.conftest import small_config, toy_table
from tests.training.test_step import make_step


def validator(table: Table, changes: dict[str, Any] | None = None, name: str = "mended") -> Validator:
    config = small_config(changes, name)
    data = prepare([table], config, torch.device("cpu"))
    stage: Stage = "finetune" if name == "crossfeed" else "pretrain"
    return Validator(make_step(table, stage, name=name).model, data.train, data.validation, config, "float32")


def test_validation_repeats_bit_for_bit_and_ignores_global_randomness(table: Table) -> None:
    protocol = validator(table)
    torch.manual_seed(1)
    first = protocol.losses("pretrain"), protocol.health(), protocol.forecast()
    torch.manual_seed(2)
    assert (protocol.losses("pretrain"), protocol.health(), protocol.forecast()) == first


def test_the_proxy_of_another_machine_repeats_bit_for_bit_and_is_harder(table: Table) -> None:
    protocol = validator(table, name="crossfeed")
    torch.manual_seed(1)
    first = protocol.other_machine_crps()
    torch.manual_seed(2)
    assert protocol.other_machine_crps() == first > protocol.forecast().crps


def test_one_strange_machine_does_not_decide_which_epoch_is_kept() -> None:
    """One machine of three jumps about wildly: the mean over all windows follows it, the median machine does not."""
    tables = [toy_table(name, seed=number) for number, name in enumerate(("one", "two", "three"))]
    config = small_config({"data.normaliser": "frame", "model.identity": "described"}, "crossfeed")
    step = make_step(tables[0], "finetune", name="crossfeed")
    found = []
    for size in (1.0, 50.0):
        data = prepare(tables, config, torch.device("cpu"))
        strange_W = data.validation.machine_W == 2
        rows = (data.validation.last_W[strange_W, None] + torch.arange(1, 17)).unique()
        data.validation.x_NC[rows.clamp(max=len(data.validation.x_NC) - 1)] *= size
        judged = Validator(step.model, data.train, data.validation, config, "float32")
        found.append((judged.forecast().crps, judged.usual_machine_crps()))
    (mean, median), (wild_mean, wild_median) = found
    assert wild_mean > 3.0 * mean
    assert wild_median < 1.5 * median


def test_a_machine_with_a_single_judged_value_counts_as_one() -> None:
    tables = [toy_table(name, seed=number) for number, name in enumerate(("one", "two", "three"))]
    config = small_config({"data.normaliser": "frame", "model.identity": "described"}, "crossfeed")
    step, found = make_step(tables[0], "finetune", name="crossfeed"), []
    for kept in (False, True):
        data = prepare(tables, config, torch.device("cpu"))
        windows = data.validation
        judge = Validator(step.model, windows, windows, config, "float32")
        own_W = judge.windows_W[windows.machine_W[judge.windows_W] == 2]
        rows, times = (windows.last_W[own_W, None] + torch.tensor(windows.horizons)).unique(return_counts=True)
        windows.m_NC[int(windows.last_W[windows.machine_W == 2].min()) - windows.context + 1 :] = False
        once = int(rows[times == 1].max())
        windows.m_NC[once, 0], windows.x_NC[once, 0] = kept, 1e3
        found.append(judge.usual_machine_crps())
    assert found[1] > found[0], "the median of three machines, not the lower one of two"


def test_a_sensor_network_has_neither_latent_losses_nor_latents(table: Table) -> None:
    protocol = validator(table, name="crossfeed")
    assert protocol.losses("finetune")[0] == {}
    assert (protocol.health().values, protocol.health().reasons) == ({}, ())


def test_the_health_of_each_side_is_that_of_its_own_latents(table: Table) -> None:
    protocol = validator(table)
    with torch.no_grad():
        context, target, predicted = protocol._latents("validation", protocol._probed_W)[3:]
    found = protocol.health().values
    for side, latents in {"context": context, "target": target, "predicted": predicted}.items():
        wanted = {f"{side}_{name}": value.item() for name, value in latent_health(latents.flatten(0, -2)).items()}
        assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-6)


def test_validation_terms_are_those_of_the_stage(table: Table) -> None:
    protocol = validator(table)
    assert protocol.losses("pretrain")[0].keys() == {"latent", "vicreg", "schema", "recovery"}
    assert protocol.losses("finetune")[0].keys() == {"latent", "vicreg", "schema", "recovery", "physical"}


def test_score_does_not_grow_with_the_scale_of_the_latents() -> None:
    generator = torch.Generator().manual_seed(0)
    predicted, target = torch.randn(2, 50, 3, 8, generator=generator)
    measured = torch.ones(50, 3, dtype=torch.bool)

    def score(scale: float, shift: float) -> float:
        ratio = ErrorOverVariance()
        for part in range(0, 50, 10):
            rows = slice(part, part + 10)
            ratio.add(scale * predicted[rows] + shift, scale * target[rows] + shift, measured[rows])
        return ratio.value()

    assert score(100.0, 5.0) == pytest.approx(score(1.0, 0.0), rel=1e-5)
    expected = (predicted - target).square().sum() / (target - target.mean(0)).square().sum()
    assert score(1.0, 0.0) == pytest.approx(expected.item(), rel=1e-6)


def test_rows_without_any_sensor_do_not_count_in_the_score() -> None:
    predicted, target = torch.randn(2, 20, 2, 4, generator=torch.Generator().manual_seed(0))
    measured = torch.arange(20).unsqueeze(1).expand(20, 2) < 15
    spoiled, clean = ErrorOverVariance(), ErrorOverVariance()
    spoiled.add(predicted, torch.where(measured.unsqueeze(-1), target, 1e6), measured)
    clean.add(predicted[:15], target[:15], measured[:15])
    assert spoiled.value() == pytest.approx(clean.value())


def test_paper_scores_latent_and_vicreg_on_consecutive_windows(table: Table) -> None:
    protocol = validator(table, {"training.validation_windows": 1000}, name="paper")
    terms, score = protocol.losses("pretrain")
    weights = protocol.config.objectives.weights
    assert score == pytest.approx(weights.latent * terms["latent"] + weights.vicreg * terms["vicreg"])
    first = protocol._loss_batches("paper")[0]
    assert torch.equal(first, torch.arange(len(first)))
    shuffled = protocol._loss_batches("scale_free")[0]
    assert not torch.equal(shuffled.sort().values, first)


def test_validation_windows_are_capped_to_the_same_subset(table: Table) -> None:
    few = validator(table, {"training.validation_windows": 20})
    assert len(few.windows_W) == 20
    assert torch.equal(few.windows_W, validator(table).windows_W[:20])
    assert few.forecast() != validator(table).forecast()


def test_shuffled_commands_give_every_window_another_ones_future(table: Table) -> None:
    """An untrained cross-attention predictor already reacts to commands, so the errors must differ."""
    protocol = validator(table)
    assert protocol.forecast(shuffle_commands=True).rmse != protocol.forecast().rmse


def test_the_papers_gate_looked_at_context_and_target_instead_of_predicted_latents(table: Table) -> None:
    ours, papers = validator(table).health(), validator(table, name="paper").health()
    assert {f"{side}_rank" for side in ("context", "target", "predicted")} <= ours.values.keys() & papers.values.keys()
    impossible = {"training.health.rank_floor": 0.99}
    told = {reason.split()[0] for reason in validator(table, impossible).health().reasons}
    told_by_the_paper = {reason.split()[0] for reason in validator(table, impossible, "paper").health().reasons}
    assert told == {"context", "target"}
    assert told_by_the_paper == {"predicted"}


def test_predicted_latents_look_alive_over_a_dead_encoder(table: Table) -> None:
    dead = validator(table)
    with torch.no_grad():
        for name, parameter in dead.model.named_parameters():
            if name.startswith(("context_encoder", "target_encoder")):
                parameter.zero_()
    health = dead.health()
    assert health.values["predicted_rank"] > 0.1, "commands and horizons are still told apart"
    assert health.values["context_rank"] < 0.1
    assert any(reason.startswith("context latents") for reason in health.reasons)
