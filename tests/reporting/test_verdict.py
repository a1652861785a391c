"""The lights: what makes a channel green, what takes the green away, what makes it red."""

from typing import Any

import pytest

from crossfeed.reporting.sections.verdict import judge, judge_channels
from tests.reporting import material


def row(
    low: float | None = 0.1, estimate: float | None = 0.2, coverage: float | None = 0.9, **more: Any
) -> dict[str, Any]:
    skill = {"estimate": estimate, "low": low, "high": None if low is None else 0.3}
    inside = None if coverage is None else {"estimate": coverage, "low": None, "high": None}
    return {"unit": "A", "constant": False, "intervals": {"skill_rmse": skill, "coverage90": inside}, **more}


LISTENS = {"estimate": 1.2, "low": 1.1, "high": 1.3}
DEAF = {"estimate": 1.0, "low": 0.99, "high": 1.01}


@pytest.mark.parametrize(
    ("given", "command", "light", "reason"),
    [
        (row(), LISTENS, "good", "surely better"),
        (row(), None, "good", "surely better"),
        (row(low=-0.1), LISTENS, "fair", "could be chance"),
        (row(low=None), LISTENS, "fair", "too few runs"),
        (row(estimate=0.0, low=-0.2), LISTENS, "bad", "last value"),
        (row(coverage=0.80), LISTENS, "fair", "somewhat too sure"),
        (row(coverage=0.60), LISTENS, "bad", "far too sure"),
        (row(coverage=0.995), LISTENS, "fair", "wider than needed"),
        (row(coverage=None), LISTENS, "fair", "no intervals"),
        (row(), DEAF, "fair", "not for what-ifs"),
        (row(constant=True), LISTENS, "unknown", "does not move"),
        (row(estimate=None), LISTENS, "unknown", "does not move"),
    ],
)
def test_a_light_has_its_reason(given: dict[str, Any], command: dict[str, Any] | None, light: str, reason: str) -> None:
    found = judge("current", given, command)
    assert found.light == light
    assert any(reason in words for words in found.reasons)


def test_results_without_intervals_by_channel_are_judged_by_their_estimates() -> None:
    found = judge("current", {"unit": "A", "constant": False, "skill_rmse": 0.2, "coverage90": 0.9}, LISTENS)
    assert found.light == "fair"
    assert found.skill == {"estimate": 0.2, "low": None, "high": None}


def test_the_known_law_of_the_small_machine_is_trusted_where_it_is_right() -> None:
    lights = {one.channel: one for one in judge_channels(material.evaluation(), "run")}
    assert set(lights) == {"current", "power", "temperature"}
    for light in lights.values():
        assert light.skill is not None
        assert light.skill["estimate"] > 0
        assert light.command is not None
        assert light.command["estimate"] > 1.02
