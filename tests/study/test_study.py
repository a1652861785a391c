import json
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from crossfeed.configuration import leaves
from crossfeed.errors import CheckpointError, ConfigError, CrossfeedError, TableError
from crossfeed.logs.table import Table
from crossfeed.study import vault
from crossfeed.study.record.declaration import CONFIRMATION, Confirmation
from crossfeed.study.record.lockable import LOCK
from crossfeed.study.record.score import PROTOCOLS, WEIGHTS
from crossfeed.study.study import Study
from tests.study.conftest import CANDIDATES, InProcess, begin, kinds
from tests.training.conftest import toy_table


def test_the_target_table_moves_into_the_vault_and_cannot_be_read_there(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    assert not (tmp_path / "study-tables" / "target.parquet").exists()
    (sealed,) = (study.store.folder / "vault").iterdir()
    with pytest.raises(CrossfeedError):
        Table.read(sealed)
    rows = toy_table("target", sessions=3, rows=40, seed=5, absent=("current_4",)).sensors
    assert rows[:, 0].tobytes() not in sealed.read_bytes()


def test_no_function_gives_a_target_row_without_a_recorded_opening(locked: Study) -> None:
    for entry in ["", "0" * 64, locked.ledger()[0].hash, locked.ledger()[-1].hash]:
        with pytest.raises(ConfigError, match="stays closed"):
            vault.reveal(locked.store, entry)


def test_a_source_that_contains_the_target_machine_is_refused(tmp_path: Path) -> None:
    toy_table("same").write(tmp_path / "a.parquet")
    toy_table("same", seed=3).write(tmp_path / "b.parquet")
    with pytest.raises(ConfigError, match="same is in the source and in the target"):
        Study.init(tmp_path / "study", [tmp_path / "a.parquet"], [tmp_path / "b.parquet"], size="tiny")
    assert (tmp_path / "b.parquet").exists()


def test_a_target_with_rows_of_another_length_is_refused(tmp_path: Path) -> None:
    toy_table("one").write(tmp_path / "a.parquet")
    replace(toy_table("other", seed=3), period=2.0).write(tmp_path / "b.parquet")
    with pytest.raises(TableError, match="The target has a row every 2 s, the source every 1 s"):
        Study.init(tmp_path / "study", [tmp_path / "a.parquet"], [tmp_path / "b.parquet"], size="tiny")
    assert (tmp_path / "b.parquet").exists()


def test_a_second_study_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    begin(tmp_path / "study")
    with pytest.raises(ConfigError, match="already holds a study"):
        begin(tmp_path / "study")


def test_a_study_of_another_protocol_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path / "study")
    monkeypatch.setattr("crossfeed.study.record.store.PROTOCOL_VERSION", 99)
    with pytest.raises(ConfigError, match="protocol version 4"):
        Study(tmp_path / "study")


def test_every_run_has_its_components_in_one_table(locked: Study) -> None:
    runs = locked.runs()
    assert set(runs["candidate"]) == set(CANDIDATES)
    assert runs.filter(pl.col("status") != "finished").is_empty()
    assert (
        runs.select("clean", "schema_drop", "masked", "long_horizon", "calibration", "ssl")
        .null_count()
        .sum_horizontal()
        .item()
        == 0
    )


def test_a_changed_candidate_under_an_old_name_is_refused(locked: Study) -> None:
    changed = locked.config.model_copy(update={"training": locked.config.training.model_copy(update={"patience": 3})})
    with pytest.raises(ConfigError, match="different candidate named"):
        locked.plan({CANDIDATES[0]: changed}, seeds=1)


def test_a_study_before_its_confirmation_cannot_be_locked(tmp_path: Path) -> None:
    study = begin(tmp_path / "study")
    assert study.refusals() == ["the confirmation stage was not run (crossfeed study confirm STUDY)"]
    with pytest.raises(ConfigError, match="confirmation stage was not run"):
        study.lock()
    with pytest.raises(ConfigError, match="nothing to confirm"):
        study.confirm()


def test_a_lock_is_never_revisited(locked: Study) -> None:
    with pytest.raises(ConfigError, match="locked already"):
        locked.lock()


@pytest.mark.parametrize(
    ("leaders", "complaint"),
    [
        ({1: CANDIDATES[0], 2: CANDIDATES[1]}, "the leader changed between the last two seed counts"),
        ({1: CANDIDATES[3], 2: CANDIDATES[3]}, "valid seeds, fewer than 9"),
    ],
)
def test_an_unstable_or_unproven_leader_is_not_locked(
    tmp_path: Path, locked_folder: Path, leaders: dict[int, str], complaint: str
) -> None:
    study = begin(tmp_path / "study", minimum_seeds=9)
    _copy_runs(Study(locked_folder), study)
    _confirm(study, leaders)
    assert any(complaint in reason for reason in study.refusals())


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ({"collapsed": True}, "collapsed or failed on"),
        ({"command_ratio": 1.001}, "weak use of the commands"),
    ],
)
def test_a_flagged_leader_is_not_locked(
    tmp_path: Path, locked_folder: Path, damage: dict[str, object], complaint: str
) -> None:
    study = begin(tmp_path / "study", minimum_seeds=1)
    _copy_runs(Study(locked_folder), study, damage)
    _confirm(study, {1: CANDIDATES[0], 2: CANDIDATES[0]})
    assert any(complaint in reason for reason in study.refusals())


def test_a_leader_whose_runs_were_made_by_other_source_files_was_locked_all_the_same(
    tmp_path: Path, locked_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = begin(tmp_path / "study", minimum_seeds=1)
    _copy_runs(Study(locked_folder), study)
    _confirm(study, {1: CANDIDATES[0], 2: CANDIDATES[0]})
    complaint = f"runs of {CANDIDATES[0]} were made by other source files"
    assert not any(complaint in reason for reason in study.refusals())
    monkeypatch.setattr("crossfeed.study.record.lockable.code_hash", lambda: "another")
    assert any(complaint in reason for reason in study.refusals())


def _confirm(study: Study, leaders: dict[int, str]) -> None:
    study.store.record(CONFIRMATION, Confirmation((), leaders, "robust").content())


def _copy_runs(finished: Study, study: Study, damage: dict[str, object] | None = None) -> None:
    for run in finished.store.runs("finished"):
        study.store.add_runs([(run.name, run.candidate, run.seed, run.stage, run.config)])
        outcome = json.loads(json.dumps(run.outcome))
        outcome["bundle"] |= damage or {}
        study.store.finish(run.name, "finished", outcome)


def test_the_opening_is_in_the_ledger_before_the_target_is_read(locked: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def reveal(_: object, entry: str) -> list[Table]:
        seen.append((kinds(locked)[-1], locked.ledger()[-1].hash == entry))
        raise KeyboardInterrupt

    monkeypatch.setattr(vault, "reveal", reveal)
    with pytest.raises(KeyboardInterrupt):
        locked.unseal()
    assert seen == [("opening", True)]
    monkeypatch.undo()
    locked.unseal()
    assert kinds(locked).count("opening") == 1, "an interrupted opening is taken up again, not doubled"


def test_the_target_is_opened_once(locked: Study) -> None:
    result = locked.unseal()
    assert result["windows"] > 0
    assert {"persistence", "linear drift"} <= {name.replace("_", " ") for name in result["scores"]}
    assert kinds(locked)[-2:] == ["opening", "opening result"]
    with pytest.raises(ConfigError, match="was opened for this purpose"):
        locked.unseal()
    assert locked.verify().problems == ()


def test_an_unlocked_study_stays_sealed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not locked"):
        begin(tmp_path / "study").unseal()


def test_an_undeclared_ablation_stays_sealed(locked: Study) -> None:
    with pytest.raises(ConfigError, match="Nothing named 'revin' was declared"):
        locked.unseal("revin")


def test_what_was_run_cannot_be_declared_after_the_fact(locked: Study) -> None:
    other = next(
        run for run in locked.store.runs("finished") if run.candidate != json.loads(_lock(locked))["candidate"]
    )
    settings = {name: value for name, value in leaves(other.config).items() if name != "training.seed"}
    with pytest.raises(ConfigError, match="after the fact"):
        locked.declare("late", {"control": {}, "variant": settings}, 1)


def test_a_declared_ablation_opens_the_target_only_if_its_condition_holds(opened: Study) -> None:
    opened.declare("revin", {"control": {}, "revin": {"model.instance_norm.kind": "pure"}}, 1)
    with pytest.raises(ConfigError, match="unfinished runs"):
        opened.unseal("revin")
    with pytest.raises(ConfigError, match="declared before"):
        opened.declare("revin", {"control": {}, "revin": {"model.instance_norm.kind": "pure"}}, 1)
    opened.search(InProcess("cpu"))
    components = {run.candidate: run.outcome["bundle"]["components"] for run in opened.store.runs("finished")}
    better = all(
        components["revin.revin"][name] < components["revin.control"][name]
        for name in ("clean", "schema_drop", "masked", "long_horizon")
    )
    if better:
        assert "revin.revin-0" in opened.unseal("revin")["scores"]
    else:
        with pytest.raises(ConfigError, match="does not hold on source validation"):
            opened.unseal("revin")
    assert "verdict" in kinds(opened)


def test_a_declared_condition_that_holds_opens_and_one_that_fails_does_not(
    opened: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crossfeed.study import opening
    from crossfeed.study.record.declaration import ConditionVerdict

    opened.declare("again", {"control": {}, "floor": {"model.instance_norm.kind": "floored"}}, 1)
    opened.search(InProcess("cpu"))
    monkeypatch.setattr(opening, "verdict_of", lambda *_: ConditionVerdict(False, (0,), {"clean": [0.1]}))
    with pytest.raises(ConfigError, match="does not hold"):
        opened.unseal("again")
    assert kinds(opened).count("opening") == 1
    monkeypatch.setattr(opening, "verdict_of", lambda *_: ConditionVerdict(True, (0,), {"clean": [-0.1]}))
    result = opened.unseal("again")
    assert {"again.control-0", "again.floor-0"} <= result["scores"].keys()
    assert kinds(opened)[-3:] == ["verdict", "opening", "opening result"]


@pytest.mark.parametrize("what", ["config", "checkpoint", "vault", "lock"])
def test_an_opening_finds_what_changed_since_the_lock(locked: Study, what: str) -> None:
    folder, run = locked.store.folder, json.loads(_lock(locked))["run"]
    if what == "config":
        with locked.store.transaction() as connection:
            connection.execute("UPDATE runs SET config = replace(config, '0.05', '0.06') WHERE name = ?", (run,))
    else:
        (sealed,) = (folder / "vault").iterdir()
        path = {"checkpoint": folder / "runs" / run / "model.safetensors", "vault": sealed, "lock": folder / LOCK}[what]
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError):
        locked.unseal()
    assert "opening" not in kinds(locked)


def test_changed_code_breaks_the_lock(locked: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossfeed.study.lock.code_hash", lambda: "another")
    with pytest.raises(CheckpointError, match="code"):
        locked.unseal()


def _lock(study: Study) -> str:
    return (study.store.folder / LOCK).read_text()


def test_the_paper_locked_its_best_seed_and_we_the_median_one(locked_folder: Path, tmp_path: Path) -> None:
    seeds = {}
    for rule in ("best", "median"):
        study = Study(shutil.copytree(locked_folder, tmp_path / rule))
        with study.store.transaction() as connection:
            connection.execute("DELETE FROM ledger WHERE kind = 'lock'")
        (study.store.folder / LOCK).unlink()
        with study.store.transaction() as connection:
            for seed in range(2):
                components = json.dumps(dict.fromkeys(WEIGHTS, 0.9 - 0.1 * seed))
                connection.execute(
                    "UPDATE runs SET outcome = json_set(outcome, '$.bundle.components', json(?)) WHERE seed = ?",
                    (components, seed),
                )
        with pytest.raises(ConfigError, match="the seed 'lucky'"):
            study.lock("lucky")  # type: ignore[arg-type]
        content = study.lock(rule)  # type: ignore[arg-type]
        seeds[rule] = content["seed"]
        assert content["seed_rule"] == rule
    assert seeds == {"best": 1, "median": 1 if len(study.store.runs()) == 8 else 0}
    assert (PROTOCOLS["paper"].locked_seed, PROTOCOLS["crossfeed"].locked_seed) == ("best", "median")


def test_tables_of_another_ingest_rule_slipped_into_a_study_of_the_paper(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"source.parquet \(rule crossfeed\), target.parquet") as caught:
        begin(tmp_path / "study", protocol="paper")
    assert "--rule paper" in caught.value.remedy
    assert not (tmp_path / "study" / "study.db").exists()
    assert begin(tmp_path / "other", rule="paper", protocol="paper").protocol["name"] == "paper"
