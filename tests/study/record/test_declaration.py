"""The condition of a declared opening: every RMSE component better in the mean over the seeds of both arms."""

from crossfeed.study.record.declaration import RMSE_COMPONENTS, compare


def arm(*values: float) -> dict[int, dict[str, float]]:
    """One arm whose components are all equal to the given value, one value per seed."""
    return {seed: dict.fromkeys(RMSE_COMPONENTS, value) for seed, value in enumerate(values)}


def test_the_mean_may_be_better_although_one_seed_is_not() -> None:
    assert compare(arm(1.0, 1.0, 1.0), arm(0.5, 0.5, 1.1)).holds
    assert not compare(arm(1.0, 1.0, 1.0), arm(0.9, 0.9, 1.3)).holds


def test_one_worse_component_breaks_the_condition() -> None:
    for name in RMSE_COMPONENTS:
        variant = arm(0.5, 0.5)
        for seed in variant:
            variant[seed][name] = 2.0
        assert not compare(arm(1.0, 1.0), variant).holds


def test_equal_is_not_better() -> None:
    assert not compare(arm(1.0), arm(1.0)).holds


def test_only_common_seeds_are_compared() -> None:
    verdict = compare(arm(1.0, 1.0), arm(0.5, 0.5, 99.0))
    assert verdict.seeds == (0, 1)
    assert verdict.differences["clean"] == [-0.5, -0.5]
