from pathlib import Path

import pytest

from crossfeed.errors import ConfigError
from crossfeed.study.record.score import dropped, pool
from crossfeed.study.study import Study
from crossfeed.training.run_config import RunConfig
from tests.study.conftest import Invented, begin, command, kinds

NAMES = (
    "preset", "norm_none", "norm_pure", "norm_floored", "norm_blended", "norm_split", "norm_centred", "likelihood_nll",
    "token_commands", "film_commands", "mean_commands", "mixed_masks",
)  # fmt: skip


def clean(candidate: str, seed: int) -> float:
    """Later names are worse, except that the last one is lucky at its first seed and hopeless afterwards."""
    place = NAMES.index(candidate)
    if candidate == NAMES[-1]:
        return 0.5 if seed == 0 else 9.0
    return 1.0 + 0.1 * place + 0.01 * seed


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return begin(tmp_path / "study", target=False)


@pytest.fixture
def candidates(study: Study) -> dict[str, RunConfig]:
    return study.candidates(NAMES)


def test_only_the_better_half_gets_the_next_seed(study: Study, candidates: dict[str, RunConfig]) -> None:
    study.halve(candidates, 4, Invented(clean))
    seeds = {name: sorted(run.seed for run in study.store.runs() if run.candidate == name) for name in NAMES}
    # Twelve, then six, then never fewer than the five finalists.
    assert [sum(seed in own for own in seeds.values()) for seed in range(4)] == [12, 6, 5, 5]
    assert seeds[NAMES[0]] == [0, 1, 2, 3]
    assert seeds[NAMES[-1]] == [0, 1]


def test_halving_is_stated_in_the_ledger_before_its_first_run(study: Study, candidates: dict[str, RunConfig]) -> None:
    study.halve(candidates, 3, Invented(clean))
    history = kinds(study)
    assert history.index("halving") < history.index("plan")
    rungs = [entry.content for entry in study.ledger() if entry.kind == "rung"]
    assert [len(rung["dropped"]) for rung in rungs] == [6, 1, 0]
    assert dropped(study.store)[NAMES[-1]] == 2


def test_the_command_line_halves_and_says_who_was_dropped(study: Study) -> None:
    only = [f"--only={name}" for name in NAMES]
    shown = command("search", study.store.folder, "--halving", "--seeds", 2, *only, engine=Invented(clean))
    before, below = " ".join(shown.split()).split("Dropped by successive halving")
    assert len(dropped(study.store)) == 6
    assert all(name in below for name in dropped(study.store))
    assert "cannot be compared" in below
    assert "Ranking by the robust score" in before
    assert len(study.store.runs("finished")) == 12 + 6


def test_dropped_candidates_stand_below_everybody_with_full_seeds_and_say_so(
    study: Study, candidates: dict[str, RunConfig]
) -> None:
    study.halve(candidates, 3, Invented(clean))
    lines = study.rank()
    assert [line.candidate for line in lines[:5]] == list(NAMES[:5])
    assert {line.seeds for line in lines[:5]} == {3}
    assert [line.dropped_after for line in lines] == [None] * 5 + [2] + [1] * 6
    assert lines[5].candidate == NAMES[-1], "its lucky first seed does not lift it above a candidate with all seeds"
    assert len(lines) == 12


def test_the_pool_of_those_that_stayed_is_not_standardised_by_those_that_went(
    study: Study, candidates: dict[str, RunConfig]
) -> None:
    study.halve(candidates, 3, Invented(clean))
    assert {run.candidate for run in pool(study.store)} == set(NAMES[:5])
    assert len(pool(study.store)) == 15


def test_only_those_that_stayed_are_confirmed(study: Study, candidates: dict[str, RunConfig]) -> None:
    study.halve(candidates, 2, Invented(clean))
    found = study.confirm(Invented(clean))
    assert set(found.finalists) == set(NAMES[:5])
    assert found.stable
    assert found.leader == NAMES[0]


@pytest.mark.parametrize("stop_after", [0, 3, 12, 15, 18])
def test_halving_goes_on_after_a_stop_as_if_nothing_had_happened(
    study: Study, candidates: dict[str, RunConfig], stop_after: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        study.halve(candidates, 3, Invented(clean, stop_after))
    study.halve(candidates, 3, Invented(clean))
    assert kinds(study).count("halving") == 1
    assert kinds(study).count("rung") == 3
    assert len(study.store.runs("finished")) == 12 + 6 + 5
    assert [line.candidate for line in study.rank()[:5]] == list(NAMES[:5])


def test_halving_after_plain_runs_is_refused(study: Study, candidates: dict[str, RunConfig]) -> None:
    study.plan(candidates, 1)
    with pytest.raises(ConfigError, match="before halving was stated"):
        study.halve(candidates, 3, Invented(clean))


def test_a_plain_search_after_halving_is_refused(study: Study, candidates: dict[str, RunConfig]) -> None:
    study.halve(candidates, 2, Invented(clean))
    with pytest.raises(ConfigError, match="searched by successive halving"):
        study.plan(candidates, 4)


def test_halving_with_other_seeds_or_candidates_is_refused(study: Study, candidates: dict[str, RunConfig]) -> None:
    study.halve(candidates, 2, Invented(clean))
    with pytest.raises(ConfigError, match="other candidates or seeds"):
        study.halve(candidates, 3, Invented(clean))


def test_an_invalid_candidate_is_dropped_first(study: Study, candidates: dict[str, RunConfig]) -> None:
    best_but_dead = Invented(clean, invalid=lambda name, _: "latents collapsed" if name == NAMES[0] else "")
    study.halve(candidates, 2, best_but_dead)
    assert dropped(study.store)[NAMES[0]] == 1
