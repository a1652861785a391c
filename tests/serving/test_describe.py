"""Sampled futures described, in figures that were worked out by hand."""

import numpy as np
import pytest

from crossfeed.serving.history import History, read_history
from crossfeed.serving.measures import Estimate
from crossfeed.serving.plan import PlannedCommands
from crossfeed.serving.what_if import FAINTEST, compared, plan_forecast, reading, rows_before
from tests.serving.conftest import Place

SHOWN = np.array([True, True, False])
DRAWN = np.arange(1.0, 40.0)  # 39 futures: the 5 % quantile of them is the second, the 95 % quantile the 38th


@pytest.fixture
def history(place: Place) -> History:
    return read_history(place.table, place.opened.model, at=30.0)


def futures(power: np.ndarray) -> np.ndarray:
    """Three rows of three sensors, whose power is that of each future in the first row and nothing later."""
    paths_NTC = np.zeros((len(power), 3, 3))
    paths_NTC[:, 0, 1] = power
    return paths_NTC


def test_a_plan_is_told_row_by_row(history: History) -> None:
    truth = np.ones((3, 3))
    plan = PlannedCommands("plan", "array", None, np.array([[1.0, 2.0], [3.0, 4.0], [np.nan, 6.0]]), truth=truth)
    said = plan_forecast(plan, futures(DRAWN), history, SHOWN, {"power": 30.0}, [])
    assert (said.duration, said.time) == (3.0, [1.0, 2.0, 3.0])
    assert said.commands == {"spindle_speed": [1.0, 3.0, None], "feed_x": [2.0, 4.0, 6.0]}
    assert list(said.sensors) == ["current", "power"]
    power = said.sensors["power"]
    assert power.mean == pytest.approx([20.0, 0.0, 0.0])
    assert {level: values[0] for level, values in power.quantiles.items()} == pytest.approx(
        {"0.05": 2.0, "0.25": 10.0, "0.5": 20.0, "0.75": 30.0, "0.95": 38.0}
    )
    energy = said.energy
    assert energy is not None
    assert (energy.mean, energy.low, energy.high) == pytest.approx((20.0 / 3.6, 2.0 / 3.6, 38.0 / 3.6))
    assert energy.truth == pytest.approx(3.0 / 3.6)
    assert said.peaks["power"].probability == pytest.approx(9 / 39)
    assert said.truth == {"current": [1.0] * 3, "power": [1.0] * 3}


def test_the_last_minute_before_a_forecast_is_shown_and_ends_at_nought(place: Place, history: History) -> None:
    before = rows_before(history, SHOWN)
    assert before.time == [float(second) for second in range(-30, 1)]
    assert before.sensors["power"] == pytest.approx(history.sensors[:, 1])
    assert before.commands["feed_x"] == pytest.approx(history.commands[:, 1])
    assert list(before.sensors) == ["current", "power"]
    whole = rows_before(read_history(place.table, place.opened.model), SHOWN)
    assert (whole.time[0], whole.time[-1], len(whole.time)) == (-59.0, 0.0, 60)


def test_plans_are_compared_future_by_future(history: History) -> None:
    less = compared(("a", futures(DRAWN)), ("b", futures(0.5 * DRAWN)), history, SHOWN)
    assert less is not None
    assert (less.mean, less.low, less.high) == pytest.approx((-10.0 / 3.6, -19.0 / 3.6, -1.0 / 3.6))
    assert less.probability_less == 1.0
    assert less.reading == "b needs less energy than a in 100% of the sampled futures: -5.28 to -0.278 Wh"
    more = compared(("a", futures(DRAWN)), ("b", futures(DRAWN + 3.6)), history, SHOWN)
    assert more is not None
    assert (more.mean, more.low, more.probability_less) == pytest.approx((1.0, 1.0, 0.0))
    # What nobody could measure beside what the first plan itself is unsure by is no difference.
    faint = compared(("a", futures(DRAWN)), ("b", futures(DRAWN + 0.9 * FAINTEST * 36.0)), history, SHOWN)
    clear = compared(("a", futures(DRAWN)), ("b", futures(DRAWN + 1.1 * FAINTEST * 36.0)), history, SHOWN)
    assert faint is not None
    assert clear is not None
    assert faint.reading.startswith("cannot tell")
    assert clear.reading.startswith("b needs more energy")
    assert compared(("a", futures(DRAWN)), ("b", futures(DRAWN)), history, np.array([True, False, True])) is None


def test_a_sentence_says_how_sure_it_is() -> None:
    assert "needs more energy than a in 70%" in reading("a", "b", Estimate(2.0, 1.0, 3.0), 0.3)
    assert "needs less energy than a in 70%" in reading("a", "b", Estimate(-2.0, -3.0, -1.0), 0.7)
    assert "needs more energy than a in 70%" in reading("a", "b", Estimate(0.005, 0.004, 0.006), 0.3)
    assert "cannot tell" in reading("a", "b", Estimate(0.5, 0.0, 1.0), 0.3)
    assert "cannot tell" in reading("a", "b", Estimate(-0.5, -1.0, 0.0), 0.7)
