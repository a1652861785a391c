"""The list of differences from the paper: every row has one test named after it, and the page holds its rendering."""

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
import torch

from crossfeed.configuration import override
from crossfeed.errors import CheckpointError, ConfigError, TrainingError
from crossfeed.evaluation.adaptation.fewshot import FewShotConfig, few_shot, support_and_query
from crossfeed.evaluation.adaptation.online import blocks
from crossfeed.evaluation.adaptation.parameters import likelihood as likelihood_of
from crossfeed.evaluation.adaptation.parameters import squared
from crossfeed.evaluation.baselines.budget import named_budget
from crossfeed.evaluation.baselines.compare import run_once
from crossfeed.evaluation.baselines.contenders import Fitted, Setting, line_up
from crossfeed.evaluation.baselines.official import REPOSITORIES, SCHEDULES, OfficialNetwork, find_clones
from crossfeed.evaluation.bundle import measure_bundle
from crossfeed.evaluation.metrics import EvaluationSet
from crossfeed.evaluation.setup import SourceData
from crossfeed.evaluation.statistics import paired_tests
from crossfeed.files import read_sealed
from crossfeed.logs.data_sets import JOANNEUM
from crossfeed.logs.log_formats import log_format_named
from crossfeed.model import presets
from crossfeed.model.distribution import Gaussian
from crossfeed.model.jepa.model import JepaModel
from crossfeed.model.jepa.predictor import Predictor
from crossfeed.model.model_file import check_tensors
from crossfeed.model.world_model import WorldModel
from crossfeed.study import opening
from crossfeed.study.candidates import candidates_of
from crossfeed.study.lock import _seed_run, hashes
from crossfeed.study.record.declaration import PASSED_OVER, Confirmation
from crossfeed.study.record.score import COLLAPSED, PROTOCOLS, has_numbers, outcome_of, rank, ranked, run_scores
from crossfeed.study.record.store import Run
from crossfeed.study.study import Study
from crossfeed.training.data import prepare
from crossfeed.training.hardware import resolve_precision
from crossfeed.training.health import collapse_reasons
from crossfeed.training.optimiser import learning_rates, parameter_groups
from crossfeed.training.run import train
from crossfeed.training.run_config import RunConfig, preset
from crossfeed.training.validate import Validator
from crossfeed.windows.audits.run import run_checks
from crossfeed.windows.corrupt import MaskConfig, corrupt
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table
from docs.differences import Difference, differences, rendered
from tests.evaluation.adaptation.small_models import tiny_world_model
from tests.evaluation.baselines.test_official import PAPER, fake_clone
from tests.evaluation.small_machine import SCHEMA, normaliser_of, small_table, window_set
from tests.logs.test_resample import SECOND, frame_of, rows
from tests.model.jepa import test_objectives as latents
from tests.study.conftest import InProcess, Invented, begin
from tests.study.record.test_score import outcome
from tests.training.conftest import small_config, toy_table
from tests.windows.audits.conftest import case_of

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
    twenty, again = (candidates_of(name, config_of(name)) for name in ("paper", "paper-v2"))
    assert len(twenty) == 20
    assert list(twenty) == list(again)
    assert {config.jepa.instance_norm.kind for config in twenty.values()} == {"none"}
    assert {config.jepa.instance_norm.kind for config in again.values()} == {"split"}
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
    scores = {name: rules.score for name, rules in PROTOCOLS.items()}
    assert scores == {"paper": "paper", "paper-v2": "robust", "mended": "robust", "crossfeed": "robust"}
    runs = [outcome(name, [value, 1.0, 1.0, 1.0, 1.0, 1.0]) for name, value in (("a", 1.0), ("b", 2.0), ("c", 900.0))]
    spread = {by: run_scores(runs, by)["b", 0] - run_scores(runs, by)["a", 0] for by in ("paper", "robust")}
    assert spread["paper"] < 0.01 < spread["robust"], "one stranger flattens the paper's score"


@shows("self-supervised component")
def self_supervised_component(folder: Path) -> None:
    """One body, measured as if it had been trained with another weight of its loss, and under other masks."""
    others = {"light": {}, "heavy": {"objectives.weights.latent": 3.0}, "masked": {"masks.mode": "random"}}
    for as_in_paper in (True, False):
        found = {
            name: measured(folder / f"{name}-{as_in_paper}", changes, as_in_paper)["components"]["ssl"]
            for name, changes in others.items()
        }
        assert found["light"] == found["masked"]
        assert (found["light"] == found["heavy"]) is not as_in_paper


@shows("gate latents")
def gate_latents(_: Path) -> None:
    found = {name: config_of(name).training.health.latents for name in PROTOCOLS}
    assert found["paper"] == found["paper-v2"] == ("predicted",)
    assert found["mended"] == found["crossfeed"] == ("context", "target")


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
    study.search(Invented(lambda _, seed: 1.0 + 0.1 * (seed - 1) ** 2 + 0.01 * seed))
    taken = {
        name: _seed_run(study.store, "no_auxiliary_terms", rules.locked_seed).seed for name, rules in PROTOCOLS.items()
    }
    assert taken == {"paper": 1, "paper-v2": 1, "mended": 0, "crossfeed": 0}


@shows("ingest rule")
def ingest_rule(folder: Path) -> None:
    with pytest.raises(ConfigError, match="rule crossfeed"):
        begin(folder / "refused", protocol="paper")
    begin(folder / "taken", rule="paper")
    log = frame_of([0, SECOND // 2, SECOND], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    found = {rule: (rows(log, rule=rule)["s"], rows(log, rule=rule)["c"]) for rule in ("paper", "crossfeed")}
    assert found == {"paper": ([1.5, 3.0], [2.0, 3.0]), "crossfeed": ([1.0, 2.5], [1.0, 2.5])}
    assert JOANNEUM.segmentation.boundaries == ("part",)


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
    (found,) = paired_tests({"a": np.array([1.0, 1.1, 1.2]), "b": np.array([0.9, 0.9, 0.9])}, "a")
    assert found.floor == found.p_sign_flip == 0.25


@shows("likelihood")
def likelihood(_: Path) -> None:
    zero = torch.zeros(1)
    assert float(Gaussian(zero, zero + 1.0).nll(zero)) == pytest.approx(0.5 * math.log(2 * math.pi))


@shows("official code")
def official_code(_: Path) -> None:
    budget = named_budget("paper")
    assert (budget.official_epochs, budget.official_seed) == (100, 20260820)


@shows("order of openings")
def order_of_openings(folder: Path) -> None:
    for name, rule in (("paper", "paper"), ("mended", "crossfeed")):
        with pytest.raises(ConfigError, match="The confirmatory opening comes first"):
            opening._need_confirmatory_first(begin(folder / name, protocol=name, rule=rule).store)


@shows("unit audit")
def unit_audit(_: Path) -> None:
    one, other = toy_table("one"), toy_table("other", seed=3)
    other.sensors[:] *= 1000.0
    report = run_checks(case_of(one, other), ["units"])
    assert report.exit_code != 0
    assert any("1000" in str(finding) for finding in report.of("violation"))
    assert run_checks(case_of(one, toy_table("other", seed=3)), ["units"]).exit_code == 0


@shows("robust floor")
def robust_floor(_: Path) -> None:
    twenty = candidates_of("paper", config_of("paper"))
    table = toy_table()
    table.sensors[5:, 0] = 1.0 + 1e-6 * table.sensors[5:, 0]
    scales = []
    for data in (twenty["robust_normalisation"].data, preset("crossfeed").data):
        rows = split_table(table).train_rows(table)
        scales.append(Normaliser.fit(rows, "robust", data.robust_floor).sensor_scale[0])
    assert scales[0] < 0.01 * scales[1], "a channel that hardly moves explodes without a floor"


@shows("token inputs")
def token_inputs(_: Path) -> None:
    for name in ("paper", "mended"):
        value = jepa(name).context_encoder.row.value[0]
        assert isinstance(value, torch.nn.Linear)
        assert value.in_features == 1


@shows("rows without a channel")
def rows_without_a_channel(_: Path) -> None:
    m_RC = torch.tensor([[False, False, False], [False, True, False]])
    shown = {name: jepa(name).context_encoder.row.read(m_RC).tolist() for name in ("paper", "mended")}
    assert shown["paper"] == [[True, False, False], [False, True, False]]
    assert shown["mended"] == m_RC.tolist()


@shows("activation")
def activation(_: Path) -> None:
    kinds = {name: {type(module) for module in jepa(name).context_encoder.layers.modules()} for name in BOTH}
    assert torch.nn.ReLU in kinds["paper"] - kinds["mended"]
    assert torch.nn.GELU in kinds["mended"] - kinds["paper"]


@shows("target dropout")
def target_dropout(_: Path) -> None:
    assert {name: jepa(name).train().target_encoder.training for name in BOTH} == {"paper": True, "mended": False}


@shows("target positions")
def target_positions(_: Path) -> None:
    places = {name: jepa(name).target_encoder.position_H.tolist() for name in BOTH}
    assert places == {"paper": [0, 1, 2], "mended": [1, 2, 4]}


@shows("horizon embedding")
def horizon_embedding(_: Path) -> None:
    by_slot, by_value = (jepa(name).predictor.horizon for name in BOTH)
    with pytest.raises(ConfigError, match="by slot index"):
        by_slot((1, 3))
    assert by_value((1, 3)).shape[0] == 2


@shows("variance bound")
def variance_bound(_: Path) -> None:
    raw = torch.tensor([-20.0], requires_grad=True)
    slopes = {}
    for name in BOTH:
        (slopes[name],) = torch.autograd.grad(jepa(name).head.bound(raw).sum(), raw)
    assert jepa("paper").head.bound(raw).tolist() == [-8.0]
    assert slopes["paper"] == 0.0
    assert slopes["mended"] > 0.0


@shows("decay")
def decay(_: Path) -> None:
    plain = {
        name: parameter_groups(jepa(name), "finetune", config_of(name).training.decay_everything)["plain"]
        for name in BOTH
    }
    assert not plain["paper"]
    assert any(name.endswith("bias") for name in plain["mended"])
    assert any("norm" in name for name in plain["mended"])


@shows("warm-up")
def warm_up(_: Path) -> None:
    for name, warms_up in (("paper", False), ("mended", False), ("crossfeed", True)):
        rates = learning_rates(config_of(name).training, 200)
        assert (rates[0] < 0.1 * rates[99]) == warms_up, name


@shows("precision")
def precision(_: Path) -> None:
    for name in BOTH:
        assert resolve_precision(config_of(name).training.precision, torch.device("cpu")) == "float32"
        loss = jepa(name).head(torch.zeros(1, 1, jepa(name).config.width, dtype=torch.bfloat16))
        assert all(part.dtype == torch.float32 for part in loss)


@shows("pretraining loader")
def pretraining_loader(_: Path) -> None:
    """The same body, judged as a candidate with light and one with heavy masks."""
    data = prepare([toy_table()], small_config(), torch.device("cpu"))
    for name, moves in (("paper", False), ("mended", True)):
        model = jepa(name)
        found = {
            Validator(model, data.train, data.validation, small_config({"masks.channel_drop": drop}, name), "float32")
            .losses("pretrain")[1]
            for drop in (0.1, 0.6)
        }  # fmt: skip
        assert (len(found) == 2) == moves, name


@shows("pretraining selection")
def pretraining_selection(_: Path) -> None:
    """Latents ten times as large: the paper's score grows with them, the scale-free one does not."""
    data = prepare([toy_table()], small_config(), torch.device("cpu"))
    for name in BOTH:
        model, config = jepa(name), small_config({"objectives.weights.vicreg": 0.0}, name)
        found = []
        for scale in (1.0, 10.0):
            with torch.no_grad():
                for part in (model.predictor.norm, model.target_encoder.encoder.norm):
                    part.weight.mul_(scale)
                    part.bias.mul_(scale)
            found.append(Validator(model, data.train, data.validation, config, "float32").losses("pretrain")[1])
        assert (found[1] > 2.0 * found[0]) == (name == "paper"), found
        assert name == "paper" or found[1] == pytest.approx(found[0], rel=1e-3)


@shows("gate scale")
def gate_scale(_: Path) -> None:
    health = {"rank": 0.4, "raw_spread": 0.04, "relative_spread": 0.5, "varying": 1.0}
    flagged = {name: bool(collapse_reasons(health, config_of(name).training.health)) for name in PROTOCOLS}
    assert flagged == {"paper": True, "paper-v2": False, "mended": False, "crossfeed": False}


@shows("schema-drop component")
def schema_drop_component(folder: Path) -> None:
    theirs, ours = (measured(folder / name, {}, name == "paper") for name in BOTH)
    details = theirs["details"]
    assert (
        details["schema_drop_on_every_channel"]["count"] == details["clean"]["count"] > details["schema_drop"]["count"]
    )
    assert theirs["components"]["schema_drop"] == pytest.approx(details["schema_drop_on_every_channel"]["rmse"])
    assert ours["components"]["schema_drop"] == pytest.approx(ours["details"]["schema_drop"]["rmse"])
    assert theirs["components"]["clean"] == ours["components"]["clean"]


@shows("masked component")
def masked_component(folder: Path) -> None:
    for as_in_paper in (True, False):
        light, heavy = (
            measured(folder / f"{drop}-{as_in_paper}", {"masks.channel_drop": drop}, as_in_paper)["components"][
                "masked"
            ]
            for drop in (0.0, 0.8)
        )
        assert (light != heavy) is as_in_paper


@shows("evaluation space")
def evaluation_space(_: Path) -> None:
    usual, robust = (small_config({"data.normaliser": kind}, "paper").data for kind in ("zscore", "robust"))
    spaces = [SourceData.of([toy_table()], data).space for data in (usual, robust)]
    assert spaces[0].hash() == spaces[1].hash()
    assert spaces[1].method == "zscore"


@shows("ranked seeds")
def ranked_seeds(folder: Path) -> None:
    lucky = [outcome("lucky", [0.1] * 6, 0), *(outcome("lucky", [1.0] * 6, seed, invalid="flat") for seed in (1, 2, 3))]
    steady = [outcome("steady", [1.0] * 6, seed) for seed in range(4)]
    for by in ("paper", "robust"):
        lines = rank([*lucky, *steady], by)
        assert [line.candidate for line in lines] == ["steady", "lucky"]
        assert [line.candidate for line in ranked(lines)] == ["steady"]
    for name in BOTH:
        lone = Invented(
            lambda candidate, _: float(candidate != "lucky"), invalid=lambda c, s: "flat" * (c == "lucky" and s > 0)
        )
        assert "lucky" not in confirmed(folder / name, name, lone, ["lucky", "other", "steady"]).finalists


@shows("stability rule")
def stability_rule(folder: Path) -> None:
    """In the pool of all `near` leads, among the five finalists `far` does, at four seeds as at five."""
    leaders = {name: confirmed_pair(folder / name, name).leaders for name in BOTH}
    assert leaders["paper"][4] == "near"
    assert leaders["mended"][4] == leaders["mended"][5] == leaders["paper"][5] == "far"


@shows("seeds after a refusal")
def seeds_after_a_refusal(folder: Path) -> None:
    assert list(confirmed_pair(folder / "paper", "paper").leaders) == [4, 5, 7]
    turning = Invented(lambda candidate, seed: 2.0 + (-1.0 if candidate == "a" else 1.0) * (-2.0) ** seed)
    assert list(confirmed(folder / "mended", "mended", turning, ["a", "b"]).leaders)[:3] == [4, 5, 6]


@shows("invalid seeds")
def invalid_seeds(folder: Path) -> None:
    for name, in_the_way in (("paper", False), ("mended", True)):
        engine = Invented(
            lambda candidate, _: float(candidate != "best"), invalid=lambda c, s: "flat" * (c == "best" and s == 2)
        )
        confirmed(folder / name, name, engine, ["best", "other"])
        reasons = Study(folder / name).refusals()
        assert any("collapsed or failed on 1" in reason for reason in reasons) == in_the_way
        assert in_the_way or not reasons


@shows("flagged leaders")
def flagged_leaders(folder: Path) -> None:
    for name in BOTH:
        engine = Weak(lambda candidate, _: float(candidate != "deaf"), deaf="deaf")
        confirmed(folder / name, name, engine, ["deaf", "other", "third"])
        study = Study(folder / name)
        assert "--pass-over deaf" in study.refusals()[0]
        assert study.confirm(engine, pass_over="deaf").leader != "deaf"
        assert study.refusals() == []
        assert [entry.content["candidate"] for entry in study.store.entries(PASSED_OVER)] == ["deaf"]


@shows("lock hashes")
def lock_hashes(folder: Path) -> None:
    study = begin(folder / "study")
    study.plan(study.candidates(["no_auxiliary_terms"]), seeds=1)
    study.search(InProcess())
    found = hashes(study.store, study.store.runs()[0])
    assert sorted(found) == sorted(f"{part}_sha256" for part in ("config", "code", "normaliser", "data", "checkpoint"))
    assert len(found["data_sha256"]) == 2, "the source and the sealed target"


@shows("model file")
def model_file(_: Path) -> None:
    tensors = dict(jepa("paper").state_dict())
    name = next(iter(tensors))
    with pytest.raises(CheckpointError, match=f"{name} is missing; stranger is unexpected"):
        check_tensors("file", {**{k: v for k, v in tensors.items() if k != name}, "stranger": tensors[name]}, tensors)


@shows("few-shot loss")
def few_shot_loss(_: Path) -> None:
    batch = window_set(small_table(), normaliser_of(small_table()), ("power",)).batch(torch.arange(4))
    assert not batch.future_m_BHC.all()
    means, gradients = torch.ones_like(batch.future_x_BHC).requires_grad_(), {}
    for name in ("paper", "mended", "crossfeed"):
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
    queries = {}
    for name in ("paper", "crossfeed"):
        divided = support_and_query(windows, (0.1, 0.3), FewShotConfig.of(name).query)
        queries[name] = [len(query) for query in divided.query.values()]
    assert len(set(queries["paper"])) == 3
    assert len(set(queries["crossfeed"])) == 1
    assert queries["paper"][-1] == queries["crossfeed"][-1]


@shows("few-shot seed")
def few_shot_seed(_: Path) -> None:
    normaliser = normaliser_of(small_table(runs=6))
    data = EvaluationSet(window_set(small_table(runs=4, rows=120, seed=9), normaliser), SCHEMA, normaliser, normaliser)
    results = []
    for noise, seed in ((1, 0), (2, 0), (3, 1)):
        torch.manual_seed(noise)
        config = FewShotConfig(fractions=(0.3,), steps=3, mode="all", batch_size=8, learning_rate=1e-2, seed=seed)
        results.append(few_shot(tiny_world_model(normaliser), data, config).result.fractions[-1].metrics["rmse"])
    assert results[0] == results[1] != results[2]


@shows("online updates")
def online_updates(_: Path) -> None:
    windows = window_set(small_table(runs=2), normaliser_of(small_table(runs=6)))
    learned = 0
    for part, observed in blocks(windows, 0, 4):
        learned += len(observed)
        assert bool((windows.last_W[observed] + windows.horizons[-1] <= windows.last_W[part[0]]).all())
    assert learned


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
    model = "import torch\nclass Model(torch.nn.Module):\n def __init__(self, s): super().__init__(); self.s = s\n"
    asked = {}
    for name in ("official-patchtst", "official-itransformer"):
        clone = find_clones([fake_clone(folder / name, name, model)])[name]
        asked[name] = vars(OfficialNetwork(clone, PAPER).official.s)
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


@shows("licence")
def licence(_: Path) -> None:
    assert log_format_named("joanneum").licence == "CC BY-NC 4.0"
    assert log_format_named("thws").licence == "CC BY 4.0"


BOTH = ("paper", "mended")


def config_of(protocol: str) -> RunConfig:
    """The configuration from which the candidates of a protocol depart, at its smallest size."""
    rules = PROTOCOLS[protocol]
    return override(preset(rules.preset, "tiny"), rules.settings)


def jepa(name: str) -> JepaModel:
    """A small network of a preset, with fresh weights."""
    torch.manual_seed(0)
    table = toy_table()
    normaliser = Normaliser.fit(split_table(table).train_rows(table))
    model = WorldModel.build(small_config(name=name).model, table.schema, normaliser)
    assert isinstance(model, JepaModel)
    return model


def confirmed(folder: Path, protocol: str, engine: Invented, names: Sequence[str], seeds: int = 4) -> Confirmation:
    """A confirmation on invented runs of candidates with these names, with the usual five valid seeds."""
    study = begin(folder, protocol=protocol, rule="paper", minimum_seeds=5)
    study.plan({name: override(study.config, {"training.patience": 3 + i}) for i, name in enumerate(names)}, seeds)
    study.search(engine)
    return study.confirm(engine, most_seeds=8)


def confirmed_pair(folder: Path, protocol: str) -> Confirmation:
    """Seven candidates of which two are far off: they flatten the clean RMSE and leave the masked one to decide."""

    class Strange(Invented):
        def outcome(self, candidate: str, seed: int) -> dict[str, Any]:
            found = super().outcome(candidate, seed)
            found["bundle"]["components"] |= {"masked": {"near": 0.9, "far": 1.0}.get(candidate, 1.1)}
            return found

    worth = {"near": 1.0, "far": 0.9, "stranger": 500.0, "farther": 400.0}
    names = ["near", "far", "a", "b", "c", "stranger", "farther"]
    return confirmed(folder, protocol, Strange(lambda candidate, _: worth.get(candidate, 1.1)), names)


class Weak(Invented):
    """Invented runs of which one candidate does not listen to the commands."""

    def __init__(self, clean: Callable[[str, int], float], deaf: str) -> None:
        super().__init__(clean)
        self.deaf = deaf

    def outcome(self, candidate: str, seed: int) -> dict[str, Any]:
        found = super().outcome(candidate, seed)
        found["bundle"]["command_ratio"] = 1.0 if candidate == self.deaf else 1.2
        return found


def measured(folder: Path, changes: dict[str, Any], as_in_paper: bool) -> dict[str, Any]:
    """The bundle of one small run of the paper's network, measured as if it had been trained with other settings."""
    trained = folder.parent.parent / "trained"
    if not trained.exists():
        train(toy_table(), small_config(), trained, device="cpu")
    shutil.copytree(trained, folder)
    model, summary = WorldModel.load(folder / "model.safetensors"), read_sealed(folder / "summary.json")
    shared, path = ["current_0", "current_1"], folder / "bundle.json"
    return measure_bundle(model, [toy_table()], small_config(changes), summary, shared, path, as_in_paper)


def count(module: torch.nn.Module) -> int:
    """Numbers that a module learns."""
    return sum(parameter.numel() for parameter in module.parameters())


@shows("pooled VICReg")
def pooled_vicreg(_: Path) -> None:
    for base in (presets.paper, presets.mended):
        latents.test_pooled_vicreg_takes_horizons_as_samples_as_the_authors_do_or_their_mean(base)


@shows("latent LayerNorm")
def latent_layer_norm(_: Path) -> None:
    for base in (presets.paper, presets.mended):
        latents.test_a_latent_layer_norm_acts_in_every_term_as_the_authors_does_or_in_the_latent_one(base)


@pytest.mark.parametrize("row", differences(), ids=lambda row: row.item)
def test_a_documented_difference_is_one_of_the_code(row: Difference, tmp_path: Path) -> None:
    BEHAVIOUR[row.item](tmp_path)


def test_readme_promised_every_difference_and_the_list_lacked_the_studys() -> None:
    items = [row.item for row in differences()]
    assert sorted(items) == sorted(BEHAVIOUR)
    assert len(set(items)) == len(items)
    for row in differences():
        resolve_name(row.where)
        assert all(getattr(row, name).strip() for name in row.__slots__), row.item


def test_the_page_holds_the_list_as_it_is() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    assert rendered(page) == page, "python docs/differences.py"
