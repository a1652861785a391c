"""The list of differences from the paper: every row has one test named after it, and the page holds its rendering."""

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
import torch

from crossfeed.adaptation.fewshot import FewShotConfig
from crossfeed.adaptation.learning import likelihood as likelihood_of
from crossfeed.adaptation.learning import squared
from crossfeed.adaptation.support import support_and_query
from crossfeed.baselines.budget import named_budget
from crossfeed.baselines.clones import REPOSITORIES, find_clones
from crossfeed.baselines.contenders import Fitted, Setting, line_up
from crossfeed.baselines.official import SCHEDULES, OfficialNetwork
from crossfeed.baselines.runs import run_once
from crossfeed.distribution import Gaussian
from crossfeed.errors import ConfigError, TrainingError
from crossfeed.evaluation.bundle import measure_bundle
from crossfeed.evaluation.statistics import compare
from crossfeed.json_file import read_sealed
from crossfeed.machines import joanneum
from crossfeed.model.jepa.predictor import Predictor
from crossfeed.model.world_model import WorldModel
from crossfeed.study import opening
from crossfeed.study.candidates import candidates_of
from crossfeed.study.differences import DIFFERENCES, Difference, rendered
from crossfeed.study.lock import _seed_run
from crossfeed.study.record.outcomes import COLLAPSED, has_numbers, outcome_of
from crossfeed.study.record.rules import PROTOCOLS
from crossfeed.study.record.score import rank, run_scores
from crossfeed.study.record.store import Run
from crossfeed.training.run import train
from crossfeed.training.run_config import preset
from crossfeed.windows.corrupt import MaskConfig, corrupt
from tests.baselines.test_official import PAPER, fake_clone
from tests.evaluation.small_machine import normaliser_of, small_table, window_set
from tests.ingest.test_resample import SECOND, frame_of, rows
from tests.study.conftest import Invented, begin
from tests.study.record.test_score import outcome
from tests.training.conftest import small_config, toy_table

DOCUMENT = Path(__file__).parents[2] / "docs" / "method.md"
Behaviour = Callable[[Path], None]
BEHAVIOUR: dict[str, Behaviour] = {}


def shows(item: str) -> Callable[[Behaviour], Behaviour]:
    """Register the one test that shows an item of the list; it is given an empty folder."""

    def register(test: Behaviour) -> Behaviour:
        assert item not in BEHAVIOUR, f"two tests of '{item}'"
        BEHAVIOUR[item] = test
        return test

    return register


@shows("candidates")
def candidates(_: Path) -> None:
    assert len(candidates_of("paper", preset("paper"))) == 20
    assert candidates_of("crossfeed", preset("crossfeed"))["preset"] == preset("crossfeed")


@shows("cross-attention")
def cross_attention(_: Path) -> None:
    twenty = candidates_of("paper", preset("paper", "tiny"))
    attending = [config for config in twenty.values() if config.model.predictor.injection == "cross_attention"]
    assert len(attending) == 15
    other, plain = (
        Predictor(config.jepa.predictor, config.jepa.blocks, 4, config.model.horizons)
        for config in (twenty["cross_attention_command"], twenty["per_horizon_vicreg"])
    )
    assert count(other) > count(plain), "layers that read the commands, not the same function under another name"


@shows("score")
def score(_: Path) -> None:
    assert (PROTOCOLS["paper"].score, PROTOCOLS["crossfeed"].score) == ("paper", "robust")
    runs = [outcome(name, [value, 1.0, 1.0, 1.0, 1.0, 1.0]) for name, value in (("a", 1.0), ("b", 2.0), ("c", 900.0))]
    spread = {by: run_scores(runs, by)["b", 0] - run_scores(runs, by)["a", 0] for by in ("paper", "robust")}
    assert spread["paper"] < 0.01 < spread["robust"], "one stranger flattens the paper's score"


@shows("self-supervised component")
def self_supervised_component(folder: Path) -> None:
    """One body, measured as if it had been trained under other masks and with other weights."""
    light, heavy = (measured(folder / name, {"masks.mode": "random", "masks.ratio": ratio}) for name, ratio in MASKS)
    assert light["components"]["ssl"] == heavy["components"]["ssl"]
    assert light["ssl_scale_free"] == heavy["ssl_scale_free"]
    assert light["ssl_as_trained"] != heavy["ssl_as_trained"]


@shows("gate latents")
def gate_latents(_: Path) -> None:
    found = {name: preset(name).training.health.latents for name in PROTOCOLS}
    assert found == dict.fromkeys(("mended", "crossfeed"), ("context", "target")) | {"paper": ("predicted",)}


@shows("flagged runs")
def flagged_runs(_: Path) -> None:
    run = Run("a-0", "a", 0, "ablation x", {}, "invalid", "", {"invalid": f"{COLLAPSED}: flat", "bundle": {}})
    lost = replace(run, outcome={"invalid": "the loss is no number", "bundle": {}})
    assert has_numbers(run)
    assert not has_numbers(lost)
    assert [line.seeds for line in rank([outcome_of(run), outcome("b", [1.0] * 6)])] == [1, 0]


@shows("locked seed")
def locked_seed(folder: Path) -> None:
    study = begin(folder / "study")
    study.plan(study.candidates(["no_auxiliary_terms", "low_latent_weight"]), seeds=3)
    study.search(Invented(lambda candidate, seed: 1.0 + 0.1 * (seed - 1) ** 2 + 0.01 * seed))
    taken = {
        name: _seed_run(study.store, "no_auxiliary_terms", rules.locked_seed).seed for name, rules in PROTOCOLS.items()
    }
    assert taken == {"paper": 1, "mended": 0, "crossfeed": 0}


@shows("ingest rule")
def ingest_rule(folder: Path) -> None:
    with pytest.raises(ConfigError, match="rule crossfeed"):
        begin(folder / "refused", protocol="paper")
    begin(folder / "taken", rule="paper")
    log = frame_of([0, SECOND // 2, SECOND], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    found = {rule: (rows(log, rule=rule)["s"], rows(log, rule=rule)["c"]) for rule in ("paper", "crossfeed")}
    assert found == {"paper": ([1.5, 3.0], [2.0, 3.0]), "crossfeed": ([1.0, 2.5], [1.0, 2.5])}
    assert joanneum.LOG_FORMAT.segmentation.boundaries == ("part",)


@shows("rows from the future")
def rows_from_the_future(_: Path) -> None:
    log = frame_of([SECOND, 2 * SECOND, 6 * SECOND], [1.0, 2.0, 6.0], [None, 3.0, 4.0])
    ours, theirs = rows(log), rows(log, rule="paper")
    assert (ours["s"], ours["c"]) == ([2.0, 2.0, 2.0, None, 6.0], [3.0, 3.0, 3.0, 3.0, 4.0])
    assert ours["time"][0] == 2.0, "a command is not known before it was logged"
    assert (theirs["s"], theirs["c"]) == ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3.0, 3.0, 3.0, 3.0, 3.0, 4.0])
    later = log.with_columns(s=frame_of([1, 2, 3], [1.0, 2.0, 60.0], [0.0] * 3)["s"])
    assert rows(later)["s"][:4] == ours["s"][:4]
    assert rows(later, rule="paper")["s"][2] != theirs["s"][2]


@shows("block masks")
def block_masks(_: Path) -> None:
    x, m = torch.zeros(50, 32, 4), torch.ones(50, 32, 4, dtype=torch.bool)
    hidden = ~corrupt(x, m, MaskConfig(mode="block", ratio=0.35), torch.Generator().manual_seed(0))
    edges = torch.nn.functional.pad(hidden.transpose(1, 2).int(), (1, 1)).diff(dim=2)
    lengths = torch.nonzero(edges == -1)[:, 2] - torch.nonzero(edges == 1)[:, 2]
    assert 2 <= lengths.min() <= lengths.max() <= 12


@shows("empty views")
def empty_views(_: Path) -> None:
    x, m = torch.zeros(50, 8, 3), torch.ones(50, 8, 3, dtype=torch.bool)
    m[:, :, 0] = False
    kept = corrupt(x, m, MaskConfig(mode="channel", channel_drop=0.999), torch.Generator().manual_seed(0)).any(1)
    assert not kept[:, 0].any()
    assert kept.any(1).all()


@shows("sign-flip test")
def sign_flip_test(_: Path) -> None:
    (found,) = compare({"a": np.array([1.0, 1.1, 1.2]), "b": np.array([0.9, 0.9, 0.9])}, "a")
    assert found.floor == found.p_sign_flip == 0.25


@shows("likelihood")
def likelihood(_: Path) -> None:
    zero = torch.zeros(1)
    assert float(Gaussian(zero, zero + 1.0).nll(zero)) == pytest.approx(0.5 * math.log(2 * math.pi))


@shows("official code")
def official_code(_: Path) -> None:
    budget = named_budget("paper")
    assert (budget.official_epochs, budget.official_seed) == (100, 20260820)


@shows("official learning rate")
def official_learning_rate(_: Path) -> None:
    rates = {name: [pace(step, 10, 20)[0] for step in range(200)] for (name, _), pace in SCHEDULES.items()}
    patchtst, itransformer = rates["official-patchtst"], rates["official-itransformer"]
    assert patchtst.index(max(patchtst)) == 59
    assert max(patchtst) == 1.0
    assert patchtst[-1] < 1e-5
    assert itransformer[:20] == [1.0] * 20
    assert itransformer[199] == 0.5**18
    assert REPOSITORIES["official-patchtst"].rates == REPOSITORIES["official-itransformer"].rates == (1e-4,)


@shows("official hyperparameters")
def official_hyperparameters(folder: Path) -> None:
    model = (
        "import torch\nclass Model(torch.nn.Module):\n def __init__(self, s): super().__init__(); self.s = vars(s)\n"
    )
    asked = {}
    for name in ("official-patchtst", "official-itransformer"):
        clone = find_clones([fake_clone(folder / name, name, model)])[name]
        asked[name] = OfficialNetwork(clone, PAPER).official.s
    for settings in asked.values():
        assert [settings[key] for key in ("d_model", "n_heads", "e_layers", "d_ff")] == [128, 8, 3, 256]
    assert [asked["official-patchtst"][key] for key in ("patch_len", "stride", "dropout")] == [8, 4, 0.2]
    assert asked["official-itransformer"]["dropout"] == 0.1


@shows("official SimMTM")
def official_simmtm(folder: Path) -> None:
    _, missing = line_up("gru", Setting(named_budget("paper"), "base", "cpu", {}))
    assert "diverged to NaN at two learning rates" in missing["official-simmtm"]
    given = find_clones([fake_clone(folder, "official-simmtm", "")])
    contenders, missing = line_up("official-simmtm", Setting(named_budget("paper"), "base", "cpu", given))
    assert ([one.name for one in contenders], missing) == (["official-simmtm"], {})
    outcome = run_once(folder, "official-simmtm", 0, "zeros", diverging, {})
    assert (outcome.status, outcome.scores) == ("diverged", {})


def diverging() -> Fitted:
    """A training that ends in no number."""
    raise TrainingError("the loss is nan")


@shows("few-shot loss")
def few_shot_loss(_: Path) -> None:
    batch = window_set(small_table(), normaliser_of(small_table()), ("power",)).batch(torch.arange(4))
    assert not batch.future_m_BHC.all()
    means, gradients = torch.ones_like(batch.future_x_BHC).requires_grad_(), {}
    for name in PROTOCOLS:
        spread = torch.ones_like(means).requires_grad_()
        forecast, ahead = Gaussian(means, spread), torch.zeros_like(means)
        loss = FewShotConfig.of(name).loss
        value = squared(forecast, batch) if loss == "squared" else likelihood_of("x", forecast, batch, ahead)
        of_mean, of_spread = torch.autograd.grad(value, (means, spread), allow_unused=True)
        gradients[name] = (bool(of_mean[~batch.future_m_BHC].any()), of_spread is not None)
    assert gradients == {"paper": (True, False), "mended": (False, True), "crossfeed": (False, True)}


@shows("few-shot query")
def few_shot_query(_: Path) -> None:
    windows = window_set(small_table(), normaliser_of(small_table()))
    queries = {
        name: [
            len(found) for found in support_and_query(windows, (0.1, 0.3), FewShotConfig.of(name).query).query.values()
        ]
        for name in ("paper", "crossfeed")
    }
    assert len(set(queries["paper"])) == 3
    assert len(set(queries["crossfeed"])) == 1
    assert queries["paper"][-1] == queries["crossfeed"][-1]


@shows("order of openings")
def order_of_openings(folder: Path) -> None:
    for name, rule in (("paper", "paper"), ("mended", "crossfeed")):
        with pytest.raises(ConfigError, match="The confirmatory opening comes first"):
            opening._need_confirmatory_first(begin(folder / name, protocol=name, rule=rule).store)


MASKS = (("light", 0.1), ("heavy", 0.8))


def measured(folder: Path, changes: dict[str, Any], name: str = "mended") -> dict[str, Any]:
    """The bundle of one small run of the paper's network, measured as if it had been trained with other settings."""
    trained = folder.parent.parent / f"trained-{name}"
    if not trained.exists():
        train(toy_table(), small_config(name=name), trained, device="cpu")
    shutil.copytree(trained, folder)
    model, summary = WorldModel.load(folder / "model.safetensors"), read_sealed(folder / "summary.json")
    return measure_bundle(
        model, [toy_table()], small_config(changes, name), summary, ["current_0", "current_1"], folder / "bundle.json"
    )


def count(module: torch.nn.Module) -> int:
    """Numbers that a module learns."""
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row.item)
def test_a_documented_difference_is_one_of_the_code(row: Difference, tmp_path: Path) -> None:
    BEHAVIOUR[row.item](tmp_path)


def test_readme_promised_every_difference_and_the_list_lacked_the_studys() -> None:
    items = [row.item for row in DIFFERENCES]
    assert sorted(items) == sorted(BEHAVIOUR)
    assert len(set(items)) == len(items)
    for row in DIFFERENCES:
        resolve_name(row.where)
        assert all(getattr(row, name).strip() for name in row.__slots__), row.item


def test_the_page_holds_the_list_as_it_is() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    assert rendered(page) == page, "python -m crossfeed.study.differences docs/method.md"
