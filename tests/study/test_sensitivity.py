"""The same logs read in other ways: who was trained once is scored under every cycle, and nothing is done twice."""

from pathlib import Path

import pytest

from crossfeed.evaluation.baselines import compare
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.files import read_sealed
from crossfeed.sim.physics.production import Order
from crossfeed.sim.simulate import Scale, simulate_pair
from crossfeed.study import sensitivity as module
from crossfeed.study.sensitivity import CYCLES, PERSISTENCE, Sensitivity, SensitivityLine, readings, sensitivity

LOGS = Scale(Order(rows=1_200, sessions=6, raw_rows=2_900, duplicates=5, lost_rows=2), cycles=325_000)
BUDGET = Budget(epochs=2, pretext_epochs=1, steps=2, batch_size=16, patience=2, validation_windows=64)
REFERENCE = "rule paper, 1 s, 2 ms"


def run(logs: Path, out: Path) -> Sensitivity:
    return sensitivity(logs / "thws", logs / "joanneum", out, models="ridge,mlp", seeds=1, budget=BUDGET, stride=5)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("logs")
    simulate_pair(out, LOGS, seed=2)
    return out


def test_one_thing_is_changed_at_a_time() -> None:
    every = readings("crossfeed")
    assert (every[0].rule, every[0].period, every[0].cycle) == ("crossfeed", 1.0, "2 ms")
    for one in every[1:]:
        assert sum(getattr(one, part) != getattr(every[0], part) for part in ("rule", "period", "cycle")) == 1
    assert [one.cycle for one in every[3:]] == list(CYCLES)


def test_every_reading_is_scored_beside_its_own_persistence_and_a_second_call_trains_nothing(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CYCLES", ("4 ms",))
    found = run(logs, tmp_path / "out")
    assert found.ahead_s == (2.0, 4.0, 8.0, 16.0)
    by = {(line.reading, line.side, line.model): line for line in found.lines}
    assert {key[0] for key in by if key[1] == "target"} == {REFERENCE, "rule crossfeed", "2 s", "cycle 4 ms"}
    assert {key[0] for key in by if key[1] == "source"} == {REFERENCE, "rule crossfeed", "2 s"}
    for (reading, side, model), line in by.items():
        floor, reference = by[reading, side, PERSISTENCE], by[REFERENCE, side, model]
        assert line.share == pytest.approx(line.rmse / floor.rmse)
        assert line.windows == floor.windows
        wanted = None if reading == REFERENCE else pytest.approx(line.share - reference.share)
        assert line.change == wanted
    assert by["cycle 4 ms", "target", "ridge"].windows > 2 * by[REFERENCE, "target", "ridge"].windows
    assert by["cycle 4 ms", "target", "ridge"].share != by[REFERENCE, "target", "ridge"].share
    saved = read_sealed(found.folder / "sensitivity.json")["lines"]
    assert [SensitivityLine(**line) for line in saved] == list(found.lines)
    names = sorted(path.name for path in found.folder.iterdir() if path.is_file())
    assert names == ["sensitivity-source.md", "sensitivity-target.md", "sensitivity.json", "sensitivity.png"]
    assert "cycle 4 ms" in (found.folder / "sensitivity-target.md").read_text(encoding="utf-8")

    def refuse(*_: object) -> None:
        raise AssertionError("a finished run was done again")

    monkeypatch.setattr(compare, "_new_result", refuse)
    assert run(logs, tmp_path / "out").lines == found.lines
