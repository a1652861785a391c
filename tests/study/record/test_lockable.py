"""Every refused lock names a step, and taking that step, as it is typed, leads out of the refusal."""

from collections.abc import Callable
from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.study.record.lockable import refusals
from crossfeed.study.study import Study
from tests.study.conftest import Invented, begin, command

PROTOCOLS = ("paper", "paper-v2", "mended")


class Flawed(Invented):
    """Invented runs of which some are flagged, by candidate and seed."""

    collapsed: Callable[[str, int], bool] = staticmethod(lambda _candidate, _seed: False)
    deaf: Callable[[str, int], bool] = staticmethod(lambda _candidate, _seed: False)

    def outcome(self, candidate: str, seed: int) -> dict:
        found = super().outcome(candidate, seed)
        found["bundle"] |= {"collapsed": self.collapsed(candidate, seed)}
        found["bundle"] |= {"command_ratio": 1.0 if self.deaf(candidate, seed) else 1.2}
        return found


def best_is_first(candidate: str, seed: int) -> float:
    return {"a": 0.5, "b": 0.7}.get(candidate, 0.9) + 1e-3 * seed


def searched(folder: Path, protocol: str, engine: Invented, seeds: int = 4, minimum: int = 5) -> Study:
    study = begin(folder, protocol=protocol, rule="paper", minimum_seeds=minimum)
    config = study.config
    epochs = [config.training.model_copy(update={"patience": 5 + number}) for number in range(3)]
    names = {name: config.model_copy(update={"training": each}) for name, each in zip("abc", epochs, strict=True)}
    study.plan(names, seeds)
    study.search(engine)
    return study


def step_out(study: Study, reason: str, engine: Invented) -> None:
    """Find the refusal, take its step from the command line, and see that the reason is gone."""
    refusal = next(refusal for refusal in refusals(study.store) if reason in refusal.reason)
    assert refusal.step
    with pytest.raises(ConfigError, match=reason) as caught:
        study.lock()
    assert refusal.command(study.store.folder) in caught.value.remedy
    verb, *options = refusal.step
    command(verb, study.store.folder, *options, engine=engine)
    assert not any(reason in refusal.reason for refusal in refusals(study.store))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_out_of_a_study_that_was_not_confirmed(protocol: str, tmp_path: Path) -> None:
    engine = Invented(best_is_first)
    study = searched(tmp_path / "study", protocol, engine)
    step_out(study, "the confirmation stage was not run", engine)
    assert refusals(study.store) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_out_of_a_leader_that_changes_even_where_the_usual_number_of_seeds_is_used_up(
    protocol: str, tmp_path: Path
) -> None:
    def turning(candidate: str, seed: int) -> float:
        stage = seed if protocol == "mended" else seed // 2  # how seeds are added after a refusal
        swing = (-1.0) ** min(stage, 6 if stage < seed else 13) * 2.0**seed
        return 5e5 + (1.0 if candidate == "a" else -1.0 if candidate == "b" else 0.0) * swing

    engine = Invented(turning)
    study = searched(tmp_path / "study", protocol, engine)
    study.confirm(engine, most_seeds=11)
    steps = []
    while changed := [refusal for refusal in refusals(study.store) if "the leader changed" in refusal.reason]:
        steps.append(int(changed[0].step[-1]))
        command(changed[0].step[0], study.store.folder, *changed[0].step[1:], engine=engine)
    assert 12 < max(steps) < 20
    assert refusals(study.store) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_out_of_too_few_valid_seeds(protocol: str, tmp_path: Path) -> None:
    engine = Invented(best_is_first)
    study = searched(tmp_path / "study", protocol, engine)
    study.confirm(engine, most_seeds=5)
    with study.store.transaction() as connection:
        connection.execute("UPDATE protocol SET content = json_set(content, '$.minimum_seeds', 14)")
    step_out(study, "fewer than 14", engine)
    assert refusals(study.store) == []


def test_a_leader_with_an_invalid_seed_was_confirmed_for_ever_and_never_locked(tmp_path: Path) -> None:
    engine = Invented(best_is_first, invalid=lambda candidate, seed: "flat" * (candidate == "a" and seed == 2))
    paper = searched(tmp_path / "paper", "paper", engine)
    found = paper.confirm(engine)
    assert (found.leader, refusals(paper.store)) == ("a", []), "five valid seeds among seven"
    assert {line.candidate: line.seeds for line in paper.rank()}["a"] >= 5
    ours = searched(tmp_path / "ours", "mended", engine)
    ours.confirm(engine)
    step_out(ours, "a collapsed or failed on 1 of its seeds", engine)
    assert refusals(ours.store) == []
    assert ours.confirm(engine).leader == "b", "it stays passed over"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("flaw", ["collapsed", "deaf"])
def test_out_of_a_flagged_leader(protocol: str, flaw: str, tmp_path: Path) -> None:
    engine = Flawed(lambda candidate, seed: best_is_first(candidate, seed) - 9.0 * (candidate == "a"))
    setattr(engine, flaw, lambda candidate, seed: candidate == "a" and seed == 1)
    study = searched(tmp_path / "study", protocol, engine)
    assert study.confirm(engine).leader == "a"
    step_out(study, "collapsed or failed" if flaw == "collapsed" else "weak use of the commands", engine)
    assert refusals(study.store) == []
    assert study.confirm(engine).leader == "b"


def test_out_of_a_leader_that_was_passed_over_by_a_process_that_died(tmp_path: Path) -> None:
    engine = Flawed(best_is_first)
    engine.deaf = lambda candidate, _: candidate == "a"
    study = searched(tmp_path / "study", "mended", Flawed(best_is_first))
    study.confirm(engine)
    study.store.record("passed over", {"candidate": "a", "reasons": ["weak"]})
    step_out(study, "the confirmation was not run again", engine)


def test_out_of_unfinished_runs(tmp_path: Path) -> None:
    engine = Invented(best_is_first)
    study = searched(tmp_path / "study", "paper", engine)
    study.confirm(engine)
    config = study.store.runs()[0].config
    study.store.add_runs([("a-99", "a", 99, "confirm", config)])
    step_out(study, "unfinished runs", engine)


def test_out_of_runs_of_other_source_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Invented(best_is_first)
    study = searched(tmp_path / "study", "paper", engine)
    study.confirm(engine)
    (run,) = [run for run in study.store.runs() if run.name == "a-0"]
    with study.store.transaction() as connection:
        made = '{"code": "older"}'
        connection.execute("UPDATE runs SET outcome = json_patch(outcome, ?) WHERE name = ?", (made, run.name))
    (refusal,) = refusals(study.store)
    assert "version of crossfeed that made them" in refusal.command(study.store.folder)
    monkeypatch.setattr("crossfeed.study.record.lockable.code_hash", lambda: "older")
    assert refusals(study.store) == []


def test_out_of_a_contest_in_which_nobody_is_left(tmp_path: Path) -> None:
    engine = Invented(best_is_first, invalid=lambda _, seed: "flat" * (seed < 4))
    study = searched(tmp_path / "study", "paper", engine)
    with pytest.raises(ConfigError, match="nobody left to confirm") as caught:
        study.confirm(engine)
    assert "--seeds 5" in caught.value.remedy
    study.plan({run.candidate: study.config.model_validate(run.config) for run in study.store.runs()}, 6)
    study.search(engine)
    study.confirm(engine)
    assert refusals(study.store) == []


def test_only_a_leader_that_no_seed_can_help_is_passed_over(tmp_path: Path) -> None:
    engine = Invented(best_is_first)
    study = searched(tmp_path / "study", "paper", engine)
    for name in ("a", "nobody"):
        with pytest.raises(ConfigError, match=f"'{name}' cannot be passed over"):
            study.confirm(engine, pass_over=name)
    study.confirm(engine)
    with pytest.raises(ConfigError, match="'a' cannot be passed over"):
        study.confirm(engine, pass_over="a")
