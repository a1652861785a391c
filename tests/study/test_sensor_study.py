"""A study of the default network: no pretraining, no latents, no self-supervised component, and the same protocol."""

import math
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.study.record.score import WEIGHTS, RunOutcome, rank, run_scores, weights_of
from tests.study.conftest import InProcess, begin, command

PARTS = [name for name in WEIGHTS if name != "ssl"]


def run(candidate: str, seed: int, value: float) -> RunOutcome:
    return RunOutcome(candidate, seed, {name: value + 0.1 * number for number, name in enumerate(PARTS)}, None, 1.2)


def test_without_a_self_supervised_component_the_others_share_its_weight() -> None:
    pool = [run("a", 0, 0.4), run("a", 1, 0.5), run("b", 0, 0.7), run("b", 1, 0.9)]
    weights = weights_of(pool)
    assert list(weights) == PARTS
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["clean"] / weights["masked"] == pytest.approx(WEIGHTS["clean"] / WEIGHTS["masked"])
    for by in ("paper", "robust"):
        scores = run_scores(pool, by)  # type: ignore[arg-type]
        assert scores["a", 0] < scores["a", 1] < scores["b", 0] < scores["b", 1]
        assert all(math.isfinite(score) for score in scores.values())
    assert set(rank(pool)[0].components) == set(PARTS)


def test_weights_are_the_papers_where_a_run_has_latents_and_a_mixed_pool_is_refused() -> None:
    whole = RunOutcome("c", 0, dict.fromkeys(WEIGHTS, 1.0), 0.5, 1.2)
    assert weights_of([whole]) == weights_of([]) == WEIGHTS
    with pytest.raises(ConfigError, match="no finite value for ssl"):
        run_scores([whole, run("a", 0, 0.4)], "robust")


def test_a_study_of_sensor_networks_goes_from_search_to_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = begin(tmp_path / "study", protocol="crossfeed", minimum_seeds=1)
    folder = study.store.folder
    (tmp_path / "mine.yaml").write_text("as_it_is:\nfour_movers: {model.movers: 4}\n", encoding="utf-8")
    shown = command("search", folder, "--seeds", 1, "--candidates", tmp_path / "mine.yaml", engine=InProcess("cpu"))
    flat = " ".join(shown.split())
    assert "no latents, so there is no self-supervised component: the others share its weight" in flat
    assert "SSL" not in flat
    assert {run.status for run in study.store.runs()} == {"finished"}, "there is nothing that could collapse"
    bundle = study.store.runs()[0].outcome["bundle"]
    assert bundle["ssl_scale_free"] is None
    assert not (folder / "runs" / "as_it_is-0" / "pretrained.safetensors").exists()
    study.confirm(InProcess("cpu"), most_seeds=3)
    # After eight steps no model listens to the commands; the lock is not what is tested here.
    monkeypatch.setattr("crossfeed.study.lock.refusals", lambda _: [])
    study.lock()
    assert math.isfinite(study.unseal()["scores"]["persistence"]["rmse"])
    assert study.verify().problems == ()
