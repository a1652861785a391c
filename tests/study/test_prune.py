from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.study.export import export, verify_anything
from crossfeed.study.study import Study
from tests.study.conftest import InProcess, Invented, begin, command, kinds


def _with_weights(study: Study) -> set[str]:
    return {path.parent.name for path in (study.store.folder / "runs").glob("*/*.safetensors")}


def _locked_run(study: Study) -> str:
    return next(str(entry.content["run"]) for entry in study.ledger() if entry.kind == "lock")


def test_a_pruned_study_opens_declares_and_verifies(locked: Study, tmp_path: Path) -> None:
    folder = locked.store.folder
    before = len(_with_weights(locked))
    assert "MB freed" in command("prune", folder)
    assert _with_weights(locked) == {_locked_run(locked)}
    found = locked.verify()
    assert found.problems == ()
    assert f"the weights of {before - 1} runs were pruned; the ledger keeps their hashes" in found.remarks
    assert "persistence" in command("unseal", folder)
    arms = ("--arm", "control:", "--arm", "slow:training.learning_rate=0.0005")
    command("declare", folder, "slow", *arms, "--seeds", 1)
    command("search", folder, "--planned")
    command("prune", folder)
    assert _with_weights(locked) == {_locked_run(locked), "slow.control-0", "slow.slow-0"}, "an opening needs these"
    assert kinds(locked).count("pruning") == 1, "nothing new was taken away"
    assert locked.verify().problems == ()
    assert verify_anything(export(locked.store, tmp_path / "study.tar.gz")).problems == ()


def test_weights_that_are_missing_without_pruning_or_were_changed_are_still_found(locked: Study) -> None:
    locked.prune()
    model = locked.store.folder / "runs" / _locked_run(locked) / "model.safetensors"
    content = model.read_bytes()
    model.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert [problem for problem in locked.verify().problems if model.parent.name in problem]
    model.unlink()
    assert f"{model.parent.name}/model.safetensors is missing, new or was changed" in locked.verify().problems


def test_pruning_killed_before_the_first_file_went_changes_nothing_and_goes_on(
    locked: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    held = _with_weights(locked)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            locked.prune()
    assert _with_weights(locked) == held
    assert locked.verify().problems == ()
    assert locked.prune().size > 0
    assert _with_weights(locked) == {_locked_run(locked)}
    assert kinds(locked).count("pruning") == 1


def test_no_weights_go_while_a_run_may_still_be_locked(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    study.plan(study.candidates(["no_auxiliary_terms"]), seeds=1)
    study.search(InProcess())
    with pytest.raises(ConfigError, match="may still be locked"):
        study.prune()
    assert _with_weights(study) == {"no_auxiliary_terms-0"}


def test_candidates_that_halving_dropped_can_be_pruned_before_the_lock(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    candidates = dict(list(study.candidates().items())[:7])
    order = list(candidates)
    study.halve(candidates, 2, Invented(lambda candidate, seed: 1.0 + order.index(candidate) + 0.01 * seed))
    assert set(study.prune().runs) == {f"{name}-0" for name in order[5:]}
