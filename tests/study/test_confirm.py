from pathlib import Path

from crossfeed.study.study import Study
from tests.study.conftest import Invented, begin


def _clear(candidate: str, seed: int) -> float:
    """Everybody has a clear distance from everybody else."""
    return 1.0 + sum(map(ord, candidate)) / 1e3 + 1e-6 * seed


def _searched(folder: Path, engine: Invented, minimum_seeds: int) -> Study:
    study = begin(folder, minimum_seeds=minimum_seeds)
    candidates = dict(list(study.candidates().items())[:6])
    study.halve(candidates, 2, engine)
    return study


def _seeds(study: Study) -> dict[str, int]:
    return {line.candidate: line.seeds for line in study.rank() if line.dropped_after is None}


def test_a_leader_that_stands_gets_no_further_seed(tmp_path: Path) -> None:
    engine = Invented(_clear)
    study = _searched(tmp_path / "study", engine, minimum_seeds=2)
    found = study.confirm(engine)
    assert found.stable
    assert list(found.leaders) == [2, 3]
    assert set(_seeds(study).values()) == {3}


def test_a_search_by_halving_with_few_seeds_could_never_be_locked(tmp_path: Path) -> None:
    engine = Invented(_clear)
    study = _searched(tmp_path / "study", engine, minimum_seeds=5)
    found = study.confirm(engine)
    assert found.stable
    assert list(found.leaders) == [2, 3, 4, 5]
    seeds = _seeds(study)
    assert seeds[found.leader] == 5
    assert sorted(seeds.values()) == [3, 3, 3, 5, 5], "beyond the first added seed only the two in front go on"
    assert not any("valid seeds" in reason for reason in study.refusals())


def test_confirmation_stops_where_it_was_told_to_and_says_that_nobody_stands(tmp_path: Path) -> None:
    # Every seed turns the order round: who leads at one count does not lead at the next.
    def turning(candidate: str, seed: int) -> float:
        side = -1.0 if candidate == "preset" else 1.0
        return 2.0 + side * (-2.0) ** seed * 0.1 + len(candidate) / 1e4

    engine = Invented(turning)
    study = _searched(tmp_path / "study", engine, minimum_seeds=2)
    found = study.confirm(engine, most_seeds=4)
    assert max(found.leaders) == 4
    assert not found.stable
    assert any("the leader changed" in reason for reason in study.refusals())
