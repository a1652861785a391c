import pytest

from crossfeed.errors import ConfigError
from crossfeed.study.record.conditions import RMSE_COMPONENTS, Condition, evaluate, parse_condition

PAPER = "all rmse components better on source validation"


def arm(*values: float) -> dict[int, dict[str, float]]:
    """One arm whose components are all equal to the given value, one value per seed."""
    return {seed: dict.fromkeys(RMSE_COMPONENTS, value) for seed, value in enumerate(values)}


def test_the_papers_condition_is_understood() -> None:
    assert parse_condition(PAPER) == Condition(RMSE_COMPONENTS, need_all=True, every_seed=False)


def test_components_can_be_named() -> None:
    parsed = parse_condition("Any of clean,  masked better on every seed on source validation")
    assert parsed == Condition(("clean", "masked"), need_all=False, every_seed=True)


@pytest.mark.parametrize(
    "sentence",
    ["", "it looks good", "all rmse components worse on source validation", "all rmse components better on target"],
)
def test_a_sentence_outside_the_grammar_is_refused_with_an_example(sentence: str) -> None:
    with pytest.raises(ConfigError, match="not understood") as caught:
        parse_condition(sentence)
    assert PAPER in caught.value.remedy


def test_an_unknown_component_is_named() -> None:
    with pytest.raises(ConfigError, match="unknown components: beauty"):
        parse_condition("all of clean, beauty better on source validation")


def test_the_mean_may_be_better_although_one_seed_is_not() -> None:
    control, variant = arm(1.0, 1.0, 1.0), arm(0.5, 0.5, 1.1)
    assert evaluate(parse_condition(PAPER), control, variant).holds
    on_every_seed = "all rmse components better on every seed on source validation"
    assert not evaluate(parse_condition(on_every_seed), control, variant).holds


def test_one_worse_component_breaks_all_but_not_any() -> None:
    control, variant = arm(1.0, 1.0), arm(0.5, 0.5)
    for seed in variant:
        variant[seed]["masked"] = 2.0
    assert not evaluate(parse_condition(PAPER), control, variant).holds
    assert evaluate(parse_condition("any of rmse components better on source validation"), control, variant).holds


def test_equal_is_not_better() -> None:
    assert not evaluate(parse_condition(PAPER), arm(1.0), arm(1.0)).holds


def test_only_common_seeds_are_compared() -> None:
    verdict = evaluate(parse_condition(PAPER), arm(1.0, 1.0), arm(0.5, 0.5, 99.0))
    assert verdict.seeds == (0, 1)
    assert verdict.differences["clean"] == [-0.5, -0.5]


def test_arms_without_a_common_seed_cannot_be_compared() -> None:
    with pytest.raises(ConfigError, match="no common seed"):
        evaluate(parse_condition(PAPER), arm(1.0), {7: dict.fromkeys(RMSE_COMPONENTS, 0.1)})
