"""Our PatchTST and iTransformer against the official code, and the adapter that trains the official code itself.

Set CROSSFEED_PATCHTST, CROSSFEED_ITRANSFORMER and CROSSFEED_SIMMTM to clones of the repositories to run these tests.
"""

import os
import re
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from crossfeed.errors import ConfigError, TrainingError
from crossfeed.evaluation.baselines.budget import Budget, budget_of, named_budget
from crossfeed.evaluation.baselines.contenders import Setting, contender, line_up
from crossfeed.evaluation.baselines.network import Features, Network, NetworkInputs, Shape
from crossfeed.evaluation.baselines.networks import RECIPES, ITransformer, PatchTst
from crossfeed.evaluation.baselines.official import (
    REPOSITORIES,
    SCHEDULES,
    SIMMTM,
    Clone,
    OfficialForecaster,
    OfficialNetwork,
    cosine,
    find_clones,
    halving,
    official_class,
    one_cycle,
)
from crossfeed.windows.windows import WindowBatch, WindowSet

PAPER = Shape(context=32, sensors=17, commands=4, horizons=tuple(range(1, 17)))
BLIND = NetworkInputs(presence=False, plan=False)
VARIABLES = {"official-patchtst": "CROSSFEED_PATCHTST", "official-itransformer": "CROSSFEED_ITRANSFORMER"}
EVERY = VARIABLES | {SIMMTM: "CROSSFEED_SIMMTM"}

PATCHTST_NAMES = [
    (r"^model\.backbone\.W_P\.", "token."),
    (r"^model\.backbone\.W_pos$", "position_PD"),
    (r"^model\.backbone\.encoder\.layers\.(\d)\.", r"blocks.\1."),
    (r"self_attn\.W_Q", "attention.query"),
    (r"self_attn\.W_K", "attention.key"),
    (r"self_attn\.W_V", "attention.value"),
    (r"self_attn\.to_out\.0", "attention.leave"),
    (r"norm_attn\.1", "attention_norm"),
    (r"norm_ffn\.1", "forward_norm"),
    (r"ff\.0", "enter"),
    (r"ff\.3", "leave"),
    (r"^model\.head\.linear", "head"),
]
ITRANSFORMER_NAMES = [
    (r"^enc_embedding\.value_embedding", "token"),
    (r"^encoder\.attn_layers\.(\d)\.", r"blocks.\1."),
    (r"attention\.query_projection", "query"),
    (r"attention\.key_projection", "key"),
    (r"attention\.value_projection", "value"),
    (r"attention\.out_projection", "out"),
    (r"conv1", "enter"),
    (r"conv2", "leave"),
    (r"norm1", "attention_norm"),
    (r"norm2", "forward_norm"),
    (r"^encoder\.norm", "norm"),
    (r"^projector", "head"),
]


def clone(name: str) -> Clone:
    path = os.environ.get(EVERY[name])
    if not path:
        pytest.skip(f"{EVERY[name]} does not name a clone of {REPOSITORIES[name].home}")
    return find_clones([Path(path)])[name]


def windows(count: int, shape: Shape) -> WindowBatch:
    generator = torch.Generator().manual_seed(1)

    def draw(*size: int) -> torch.Tensor:
        return torch.randn(count, *size, generator=generator)

    steps = shape.steps
    return WindowBatch(
        x_BKC=0.3 * draw(shape.context, shape.sensors).cumsum(1) + 2.0,
        m_BKC=torch.ones(count, shape.context, shape.sensors, dtype=torch.bool),
        a_BKA=draw(shape.context, shape.commands),
        future_x_BHC=draw(shape.slots, shape.sensors),
        future_m_BHC=torch.ones(count, shape.slots, shape.sensors, dtype=torch.bool),
        mean_a_BHA=draw(shape.slots, shape.commands),
        future_a_BTA=draw(steps, shape.commands),
        last_index_B=torch.arange(count),
        machine_B=torch.zeros(count, dtype=torch.long),
    )


def ours(name: str) -> Network:
    torch.manual_seed(2)
    features = Features(PAPER, BLIND)
    if name == "official-patchtst":
        return PatchTst(features, width=128, heads=8, layers=3)
    return ITransformer(features, width=128, heads=8, layers=3)


def trainable(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def stir(module: nn.Module) -> None:
    """Away from the initial values: a norm that is still the identity would hide a missing one."""
    torch.manual_seed(3)
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point() and not name.endswith("scale"):
            noise = 0.03 * torch.randn_like(tensor)
            tensor.add_(noise.abs() if "running_var" in name else noise)


@pytest.mark.parametrize("name", list(VARIABLES))
def test_same_parameters_and_with_weights_copied_the_same_output(name: str) -> None:
    official, mine = OfficialNetwork(clone(name), PAPER), ours(name)
    assert trainable(mine) == trainable(official)
    stir(official)
    names = PATCHTST_NAMES if name == "official-patchtst" else ITRANSFORMER_NAMES
    copied = {}
    for label, tensor in official.official.state_dict().items():
        if label.endswith("scale"):
            continue
        for pattern, replacement in names:
            label = re.sub(pattern, replacement, label)
        copied[label] = tensor.squeeze(-1) if "enter.weight" in label or "leave.weight" in label else tensor
    mine.load_state_dict(copied)
    batch = windows(8, PAPER)
    expected, found = official.eval()(batch).mean, mine.eval()(batch).mean
    assert found.shape == (8, 16, 17)
    assert (found - expected).abs().max() < 1e-5
    assert found.std() > 0.1


@pytest.mark.parametrize("name", list(VARIABLES))
def test_the_base_recipe_is_the_paper_setting(name: str) -> None:
    recipe = RECIPES[name.removeprefix("official-")]
    assert trainable(recipe.build(Features(PAPER, BLIND), "base", False)) == trainable(ours(name))


@pytest.mark.parametrize("name", list(VARIABLES))
def test_the_adapter_trains_the_official_code_on_our_windows(
    name: str, parts: dict[str, WindowSet], tiny_budget: Budget
) -> None:
    forecaster = OfficialForecaster(clone(name), tiny_budget)
    forecaster.fit(parts["train"], parts["validation"], seed=0)
    batch = parts["test"].batch(torch.arange(5))
    forecast = forecaster.predict(batch)
    assert forecast.mean.shape == batch.future_x_BHC.shape
    assert (forecast.scale > 0).all()
    assert not forecaster.uses_future_commands


@pytest.mark.parametrize("name", list(EVERY))
def test_the_clone_is_named_with_its_commit_and_leaves_no_module_behind(name: str) -> None:
    found = clone(name)
    official_class(found)
    assert REPOSITORIES[name].home in found.sentence()
    assert "commit" in found.sentence()
    assert not [module for module in sys.modules if module.partition(".")[0] in ("layers", "models")]


def test_a_folder_that_is_no_clone_is_refused_with_the_repository_to_clone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a clone") as error:
        find_clones([tmp_path])
    assert "https://github.com/yuqinie98/PatchTST" in str(error.value)


def fake_clone(root: Path, name: str, model: str) -> Path:
    repository = REPOSITORIES[name]
    for file in repository.files:
        path = root / repository.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (root / repository.folder / repository.files[0]).write_text(model)
    return root


@pytest.mark.parametrize("name", list(EVERY))
def test_a_clone_of_another_version_is_said_to_differ(name: str, tmp_path: Path) -> None:
    found = find_clones([fake_clone(tmp_path, name, "class Model: pass\n")])[name]
    assert not found.as_in_paper
    assert "differ from the paper's commit" in found.sentence()


@pytest.mark.parametrize("model", ["", "import no_such_module_at_all\n", "def broken(:\n"])
def test_a_clone_that_cannot_be_imported_is_an_error_with_the_commit_to_check_out(model: str, tmp_path: Path) -> None:
    found = find_clones([fake_clone(tmp_path, "official-patchtst", model)])["official-patchtst"]
    with pytest.raises(ConfigError, match="cannot be used") as error:
        official_class(found)
    assert "checkout 204c21e" in str(error.value)
    assert str(tmp_path) not in sys.path


def test_the_paper_budget_gave_the_official_code_twice_the_papers_epochs_and_other_seeds(tmp_path: Path) -> None:
    name = "official-patchtst"
    clones = find_clones([fake_clone(tmp_path, name, "class Model: pass\n")])
    budget = named_budget("paper")
    official = contender(name, Setting(budget, "base", "cpu", clones))
    assert OfficialForecaster(clones[name], budget)._budget.epochs == 100
    assert official.seeds(3) == (20260820,)
    assert contender("gru", Setting(budget, "base", "cpu", clones)).seeds(3) == (0, 1, 2)
    assert "official code at most 100 epochs, once, with seed 20260820" in budget.sentence()
    shorter = budget_of("paper", 40, None)
    assert OfficialForecaster(clones[name], shorter)._budget.epochs == 40
    assert OfficialForecaster(clones[name], named_budget("demo"))._budget.epochs == named_budget("demo").epochs


def course(scheduler: type[torch.optim.lr_scheduler.LRScheduler], steps: int, **options: float) -> list[tuple]:
    """Rate and first beta of so many steps of the library's own schedule of Adam."""
    optimiser = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=1.0)
    pace, found = scheduler(optimiser, **options), []
    for _ in range(steps):
        found.append((optimiser.param_groups[0]["lr"], optimiser.param_groups[0]["betas"][0]))
        optimiser.step()
        pace.step()
    return found


@pytest.mark.parametrize(("steps", "epochs"), [(3, 10), (1, 4), (142, 2)])
def test_the_schedule_of_patchtst_is_the_one_cycle_of_the_library(steps: int, epochs: int) -> None:
    schedule = torch.optim.lr_scheduler.OneCycleLR
    wanted = course(schedule, steps * epochs, max_lr=1.0, steps_per_epoch=steps, epochs=epochs, pct_start=0.3)
    found = [one_cycle(step, steps, epochs) for step in range(steps * epochs)]
    assert found == [pytest.approx(pair, abs=1e-12) for pair in wanted]


def test_the_schedules_of_itransformer_and_of_simmtms_pretraining() -> None:
    assert [halving(step, 2, 5)[0] for step in range(10)] == [1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    wanted = course(torch.optim.lr_scheduler.CosineAnnealingLR, 5, T_max=5)
    assert [cosine(step, 1, 5) for step in range(5)] == [pytest.approx(pair) for pair in wanted]


LINEAR = """
import torch
class Model(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.task, self.encoder = settings.task_name, torch.nn.Linear(settings.seq_len, settings.pred_len)
        self.enc_embedding = torch.nn.Identity()
    def forward(self, x, marks=None, whole=None, mask=None):
        if self.task == "pretrain":
            seen = mask.sum(1) + 1
            assert set(mask[: len(whole)].unique().tolist()) == {1.0}
            return (((x.sum(1) / seen) ** 2 * self.encoder.weight.mean()).mean(),)
        return self.encoder(x.transpose(1, 2)).transpose(1, 2)
"""


def linear(root: Path, name: str, model: str = LINEAR) -> Clone:
    return find_clones([fake_clone(root, name, model)])[name]


@pytest.mark.parametrize("name", list(VARIABLES))
def test_official_code_was_trained_at_a_constant_rate(
    name: str, tmp_path: Path, parts: dict[str, WindowSet], tiny_budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, int]] = []
    wanted = {"official-patchtst": one_cycle, "official-itransformer": halving}
    assert SCHEDULES[name, "forecast"] is wanted[name]

    def standing(step: int, steps: int, epochs: int) -> tuple[float, float]:
        asked.append((step, steps, epochs))
        return 0.0, 0.9

    learned, frozen = (OfficialForecaster(linear(tmp_path, name), tiny_budget) for _ in range(2))
    learned.fit(parts["train"], parts["validation"], seed=0)
    monkeypatch.setitem(SCHEDULES, (name, "forecast"), standing)
    frozen.fit(parts["train"], parts["validation"], seed=0)
    torch.manual_seed(0)
    assert asked == [(step, 2, 2) for step in range(4)]
    moved = [one.module.official.encoder.weight for one in (learned, frozen)]  # type: ignore[union-attr]
    assert not torch.equal(*moved)


def test_official_simmtm_pretrains_and_hands_its_encoder_on(
    tmp_path: Path, parts: dict[str, WindowSet], tiny_budget: Budget
) -> None:
    forecaster = OfficialForecaster(linear(tmp_path, SIMMTM), tiny_budget)
    forecaster.fit(parts["train"], parts["validation"], seed=0)
    assert [report.stage for report in forecaster.reports] == ["pretext", "forecast"]
    network = forecaster.module
    assert network.official.encoder is network.pretraining.encoder  # type: ignore[union-attr]
    assert "SimMTM" in forecaster.details["code"]


def test_official_simmtm_that_diverges_says_so_at_both_rates_and_gives_no_number(
    tmp_path: Path, parts: dict[str, WindowSet], tiny_budget: Budget
) -> None:
    dividing = LINEAR.replace("mask.sum(1) + 1", "mask.sum(1) * 0")
    forecaster = OfficialForecaster(linear(tmp_path, SIMMTM, dividing), tiny_budget)
    with pytest.raises(TrainingError, match=r"at a rate of 0.0001: .* at a rate of 0.001: ") as error:
        forecaster.fit(parts["train"], parts["validation"], seed=0)
    assert "stage 'pretext' the loss is nan" in error.value.found


def test_the_real_simmtm_runs_until_its_masks_hide_a_series_and_is_lost_then(
    parts: dict[str, WindowSet], tiny_budget: Budget
) -> None:
    network = OfficialNetwork(clone(SIMMTM), PAPER)
    batch, generator = windows(4, PAPER), torch.Generator().manual_seed(0)
    assert torch.isfinite(network.pretext(batch, generator))
    assert network(batch).mean.shape == (4, 16, 17)
    with pytest.raises(TrainingError, match="the loss is nan"):
        OfficialForecaster(clone(SIMMTM), tiny_budget).fit(parts["train"], parts["validation"], seed=0)


def test_without_a_clone_the_papers_budget_declares_official_simmtm_and_another_leaves_it_out(tmp_path: Path) -> None:
    setting = Setting(named_budget("paper"), "base", "cpu", {})
    contenders, missing = line_up("gru,official-simmtm", setting)
    assert [one.name for one in contenders] == ["gru"]
    assert "diverged to NaN at two learning rates" in missing[SIMMTM]
    assert SIMMTM not in line_up("all", Setting(named_budget("demo"), "base", "cpu", {}))[1]
    with pytest.raises(ConfigError, match="no clone of it"):
        line_up(SIMMTM, Setting(named_budget("demo"), "base", "cpu", {}))
    given = Setting(named_budget("paper"), "base", "cpu", {SIMMTM: linear(tmp_path, SIMMTM)})
    assert [one.name for one in line_up(SIMMTM, given)[0]] == [SIMMTM]
    assert line_up(SIMMTM, given)[1] == {}
