"""What decisions are made of, held still: searches, scores, plans, timelines, laws, and what earlier runs vouch for."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from crossfeed.control.earlier_runs import LoggedRows, Scatter, find_runs, smoothed
from crossfeed.control.load_calibration import LoadCalibration, student_tail
from crossfeed.control.load_forecast import CuttingLaw, KnownLoad, LoadForecast, StudentTail
from crossfeed.control.machine import Workpiece
from crossfeed.control.planner import PlannerConfig, SearchConfig, plan_ahead, plan_whole, search
from crossfeed.control.score import Score, decide
from crossfeed.control.task import read_task
from crossfeed.control.timeline import Timeline
from crossfeed.schema import canonical
from crossfeed.sim.physics.catalogue import machine_named
from tests.control.conftest import logged
from tests.control.test_golden_figures import spread_out

TEXT = """G17 G90 G94
T="ROUGH"
M6
G0 X0 Y0 Z5 S3000 M3
G1 Z-2 F300
X60 F900
G4 F1
G95 Y12 F0.1
G94 X0 F600
G0 Z50
M5
T="FINE"
M6
G0 X5 Y5 Z2 S5000 M4
G1 Z-3 F200
X40 Y20.5 F700
G0 Z50
M30
"""
LAW = CuttingLaw({"spindle_power": (0.02, 6e-5), "spindle_torque": (0.2, 1e-4)})
LIMITS = ["spindle_torque<=6", "x_torque<=3", "ROUGH: spindle_torque<=5"]
SENSORS = ("spindle_torque", "x_torque", "spindle_power", "z_power")


HELD: dict[str, dict[str, list[float]]] = {
    "timelines": {
        "length, 1 s": [35, 35, 35],
        "places, 1 s": [413474.885, 137.3, 9.2, 1983],
        "cutting, 1 s": [126, 299],
        "knobs, 1 s": [208.859988, 432488.058, 3824.7577],
        "knots, 1 s": [1214, 906],
        "length, 0.5 s": [69, 69, 34.5],
        "places, 0.5 s": [55243.5647, 238.2, 34.5, 3745],
        "cutting, 0.5 s": [230, 1019],
        "knobs, 0.5 s": [207.90349, 13070.6129, 14980.6823],
        "knots, 0.5 s": [5084, 1685],
    },
    "laws": {
        "spindle_current": [0.798716104, 0],
        "spindle_torque": [0.184036283, 0.000103879862],
        "spindle_power": [0, 6.59565545e-05],
        "spindle_torque, expected and bound": [904.177513, 914.037204],
        "spindle_power, expected and bound": [925.982274, 943.505329],
        "x_torque, expected and bound": [1051.42178, 1066.21698],
        "spindle_motor_temp, expected and bound": [1004.85404, 1004.85404],
    },
    "searches": {
        "colour 1, 4 knots": [54, 2452.25093, 33.2091829, 0.180870136],
        "colour 0, 4 knots": [54, 2455.43338, 33.7281274, 0.172370017],
        "colour 2, 1 knots": [54, 605.625947, 2.83483463, 0.0197103075],
    },
    "scores": {
        "cost, time, energy": [597.051162, 578.162576, 472.214663],
        "excess, chance, doubt": [8.64396461, 73.6445982, 674.10921],
        "total": [1887.4701],
        "as written": [55, 76, 58.2261839],
        "peaks and margins": [4331.95163, 2578.58176, 692.37275],
        "gains": [-525.208159, -286.950259],
    },
    "plans": {
        "limits, ahead": [0.173333333, -0.451026214, 477],
        "limits, again": [0.173333333, -0.962421994, 477],
        "limits, whole": [0.173333333, -0.883051268, 477],
        "limits, given": [0.744842879, 1.29507087, 581],
        "limits, wanted": [407.5375, 406],
        "by blocks, ahead": [7.96, 16.1619849, 420],
        "by blocks, again": [8.36, 16.1446785, 408],
        "by blocks, whole": [9.36175295, 20.0928108, 446],
        "by blocks, given": [-0.43733056, 1.41594284, 549],
        "by blocks, wanted": [415.52, 414.611648],
        "in time, ahead": [-6.00421769, -49.3113261, 480],
        "in time, again": [10.1127211, 28.7075442, 530],
        "in time, whole": [7.88787879, 24.2652773, 499],
        "in time, given": [1.31873359, 2.79182787, 547],
        "in time, wanted": [419.807699, 423.539108],
        "both knobs, ahead": [33.283434, 41.2108704, 448],
        "both knobs, again": [33.3144127, 42.1217955, 448],
        "both knobs, whole": [25.6654713, 41.807548, 448],
        "both knobs, given": [-0.463595542, 5.30212025, 488],
        "both knobs, wanted": [436.453573, 438.04555],
    },
    "readings": {
        "scatter": [0.0940249551, 0.242239899, 1120.13894],
        "alone": [0, 0.0629285309, 9, 0.177548944],
        "believed": [-0.094322699, 0.204633165, 9, 0.483037074],
    },
    "experience": {
        "runs": [136.416383, 136.949863, 137.77006, 137.675748],
        "several: loads": [738.566893, 935.0125, 19712.7115, 2496.35829, 2513.07336],
        "several: tail": [869.148135, 869.148135, 201, -0.0751500008, 0.0629285309, 9],
        "several: margin": [0.0125, 52, 0.040205103],
        "one: loads": [765.383683, 931.976016, 19601.2659, 2499.47848, 2522.20641],
        "one: tail": [838.404799, 838.404799, 201, -0.0393241155, 0.0629285309, 9],
        "one: margin": [0.0125, 13, 0.0760309883],
        "none: loads": [802.221738, 937.704646, 19748.4242, 11040.6558, 7183.43335, 1032.11018],
        "none: margin": [0.0125, 30, 2.26746727],
    },
}


@cache
def timeline(period: float = 1.0, unsigned: bool = True) -> Timeline:
    piece = Workpiece.of(TEXT, "two tools", machine_named("spinner_620"))
    return Timeline.of(piece.program, canonical(), period, piece.motion_limits, unsigned)


def loads(samples: int = 24, seed: int = 5) -> dict[str, np.ndarray]:
    draw, places = np.random.default_rng(seed), np.arange(len(timeline()))
    usual = np.stack(
        [3.6 + 1.7 * np.sin(places / 4.0), 2.1 + 1.0 * np.cos(places / 5.0), 1.0 + places / 40.0, 0.2 + 0.0 * places]
    )
    return {
        name: np.abs(each + 0.12 * draw.standard_normal((samples, len(places)))) for name, each in zip(SENSORS, usual)
    }


def mill_forecast(doubt: float = 0.0) -> LoadForecast:
    """One sensor with a tail, one without, places that nobody doubts and places that everybody does."""
    seen, places = LoadForecast.sampled(timeline(), loads()), np.arange(len(timeline()))
    known = KnownLoad(
        seen.middle["spindle_torque"],
        0.8 * seen.middle["spindle_torque"] + 0.3,
        StudentTail(0.01, 0.08, 12.0),
        places % 5 != 2,
    )
    return replace(seen, tails={"spindle_torque": known}, doubt_T=doubt * (places % 7))


def asked(**changes: object) -> object:
    return read_task(None, {"limits": LIMITS, "objective": {"base_load": "1.4 kW", "price": 40.0}, **changes})


def knobs(seed: int = 8, plans: int = 5) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.uniform(0.6, 1.2, (plans, len(timeline()))), draw.uniform(0.9, 1.1, (plans, len(timeline())))


def told_of_timelines() -> dict[str, list[float]]:
    found = {}
    for period, unsigned in ((1.0, True), (0.5, False)):
        whole = timeline(period, unsigned)
        feed_T = 0.7 + 0.4 * np.abs(np.sin(np.arange(len(whole))))
        going = [whole.rows(first, first + 9).under_way(row).sum() for first, row in enumerate(whole.commands_TA)]
        parts = {
            "length": [len(whole), whole.whole, whole.seconds],
            "places": [whole.commands_TA, whole.feed_share_T, whole.turn_share_T, whole.line_T],
            "cutting": [whole.cutting, going],
            "knobs": [whole.taken(feed_T, feed_T), *whole.commanded(feed_T, 2.0 - feed_T)],
            "knots": [whole.knots(read_task(None, {"resolution": how}), 3) for how in ("second", "block")],
        }
        found |= {f"{name}, {period:g} s": [spread_out(part) for part in values] for name, values in parts.items()}
    return found


def told_of_laws() -> dict[str, list[float]]:
    table, draw, schema = logged(), np.random.default_rng(2), canonical()
    found = {name: [*line] for name, line in CuttingLaw.from_logs(schema, table.sensors, table.commands).idle.items()}
    load, speed = draw.uniform(0.1, 9.0, 40), draw.choice([0.0, 900.0, 4000.0], 40)
    feed, spindle = draw.uniform(0.5, 1.4, 40), draw.uniform(0.8, 1.2, 40)
    for name in ("spindle_torque", "spindle_power", "x_torque", "spindle_motor_temp"):
        given = (schema.channel(name), load, speed, feed, spindle)
        found[f"{name}, expected and bound"] = [spread_out(LAW.expected(*given)), spread_out(LAW.bound(*given))]
    return found


def told_of_searches() -> dict[str, list[float]]:
    found, aim = {}, np.array([[0.8, 1.0], [1.1, 0.95], [0.6, 1.05], [0.9, 0.98]])
    for colour, knots in ((1.0, 4), (0.0, 4), (2.0, 1)):
        tried: list[np.ndarray] = []

        def judge(plans: np.ndarray, tried: list[np.ndarray] = tried, knots: int = knots) -> np.ndarray:
            tried.append(plans)
            return np.abs(plans - aim[:knots]).sum((1, 2))

        config = SearchConfig(colour=colour, candidates=12, elites=5, iterations=4)
        best = search(
            judge, np.array([0.5, 0.9]), np.array([1.2, 1.1]), np.ones((knots, 2)), config, np.random.default_rng(6),
            lambda: 0.0,
        )  # fmt: skip
        everything = np.concatenate(tried)
        found[f"colour {colour:g}, {knots} knots"] = [
            len(everything), spread_out(everything), spread_out(best.knots_N2), best.cost
        ]  # fmt: skip
    return found


def told_of_scores() -> dict[str, list[float]]:
    score, (feed_BT, spindle_BT) = Score(mill_forecast(0.9), LAW, asked(), canonical()), knobs()
    scored = score.of(feed_BT, spindle_BT)
    gain_ST, saved_ST = score.gains(feed_BT[0], spindle_BT[0], seed=3)
    margin_T = np.nan_to_num(score.margins(feed_BT[1], spindle_BT[1]), posinf=9.0)
    parts = {
        "cost, time, energy": [scored.cost_B, scored.seconds_B, scored.energy_B],
        "excess, chance, doubt": [scored.excess_B, scored.added_B, scored.doubt_B],
        "total": [scored.total(2.5)],
        "as written": [score.likely, score.barred, score.as_written],
        "peaks and margins": [*score.peaks(feed_BT, spindle_BT).values(), margin_T],
        "gains": [gain_ST, saved_ST],
    }
    return {name: [spread_out(part) for part in values] for name, values in parts.items()}


TASKS: dict[str, dict[str, object]] = {
    "limits": {},
    "by blocks": {"resolution": "block", "slew": 0.5},
    "in time": {"objective": {"minimise": "energy", "within": "33 s", "base_load": "1.4 kW"}},
    "both knobs": {"limits": [], "spindle": {"min": 0.8, "max": 1.2}, "leave": ["FINE"]},
}


def told_of_plans() -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for name, changes in TASKS.items():
        task = asked(**changes)
        task = task.model_copy(update={"limits": ()}) if name == "both knobs" else task
        seen, config = mill_forecast(0.6 if name == "limits" else 0.3), PlannerConfig()
        score = Score(seen, LAW, task, canonical())
        ahead = plan_ahead(score, config, (0.9, 1.0), task.risk, 2)
        again = plan_ahead(score, config, (1.1, 1.0), 0.01, 1, 0.97 * ahead.wanted_T2[3:])
        whole, _ = plan_whole(seen, LAW, task, canonical(), config)
        stretches = timeline().knots(task, 4)
        wavy = 1.0 + 0.15 * np.sin(np.arange(len(timeline())) / 3.0)
        chosen = decide(Score(seen, LAW, task, canonical()), wavy, 2.0 - wavy, stretches, (0.8, 1.1))
        decisions = {
            "ahead": decide(score, ahead.feed_T, ahead.spindle_T, ahead.knot_T, (0.9, 1.0), seed=2),
            "again": decide(score, again.feed_T, again.spindle_T, again.knot_T, (1.1, 1.0), 0.01, 1),
            "whole": whole,
            "given": chosen,
        }
        for planned, decision in decisions.items():
            gains = [[each.gain.mean, each.gain.low, each.gain.high] for each in decision.choices]
            words = sum(len(each.verdict + each.why) for each in decision.choices)
            turned = np.concatenate([decision.feed_T, decision.spindle_T]) - 1.0
            found[f"{name}, {planned}"] = [spread_out(turned), spread_out(np.array(gains)), words]
        found[f"{name}, wanted"] = [spread_out(ahead.wanted_T2), spread_out(again.wanted_T2)]
    return found


def told_of_readings() -> dict[str, list[float]]:
    draw, found = np.random.default_rng(4), {}
    load, cutting = 2.0 + np.sin(np.arange(90) / 6.0) + 0.12 * draw.standard_normal(90), np.arange(90) % 30 > 2
    scatter = Scatter.of_runs([load, load[::-1] + 0.1 * draw.standard_normal(90)], cutting)
    found["scatter"] = [scatter.spread, scatter.share, spread_out(smoothed(load, cutting, scatter))]
    for name, like in (("alone", []), ("believed", draw.normal(-0.1, 0.2, 25))):
        tail = student_tail(np.array(like))
        found[name] = [tail.middle, tail.spread, tail.freedom, tail.within(0.01)]
    return found


def told_of_experience() -> dict[str, list[float]]:
    """Earlier runs are found beside others and learned from; so are forecasts."""
    whole, draw, found = timeline(), np.random.default_rng(9), {}
    column, runs = canonical().sensor_names.index("spindle_torque"), []
    log = []
    for number in range(6):
        before = 3 + number
        commands = np.concatenate([np.zeros((before, 4)), whole.commands_TA, np.zeros((4, 4))])
        commands = commands + 2.0 * draw.standard_normal(commands.shape) * (commands > 0.0)
        sensors = np.abs(draw.normal(0.5, 0.02, (len(commands), 17)))
        sensors[before : before + len(whole), column] = loads(1, number)["spindle_torque"][0]
        log.append(
            LoggedRows(sensors, commands * (0.8 if number == 4 else 1.0), "TWO TOOLS" if number != 2 else "other")
        )
    runs = find_runs(whole, log)
    found["runs"] = [float(run_TC[:, column].sum()) for run_TC in runs]
    task, forecast, name = asked(limits=["spindle_torque<=7"]), mill_forecast(), "spindle_torque"
    scores = {name: draw.normal(0.1, 0.7, 30)}
    for title, known_runs in (("several", runs), ("one", runs[:1]), ("none", [])):
        known = LoadCalibration(canonical(), whole, task, known_runs, scores)
        said = known.from_runs(0.02, samples=24, seed=1) if known_runs else known.from_forecast(forecast, 0.05)
        margin = known.summary(0.05)["margins"][name]
        loads_said = (said.middle[name], said.high[name], *said.paths.values())
        found[f"{title}: loads"] = [spread_out(part) for part in loads_said]
        if known_runs:
            tail = said.tails[name]
            parts = map(spread_out, (tail.load_T, tail.unit_T, tail.known_T))
            found[f"{title}: tail"] = [*parts, *vars(tail.tail).values()]
        found[f"{title}: margin"] = [known.risk_of_a_row(0.05), margin["rows"], margin["margin"]]
    return found


TOLD = {
    "timelines": told_of_timelines,
    "laws": told_of_laws,
    "searches": told_of_searches,
    "scores": told_of_scores,
    "plans": told_of_plans,
    "readings": told_of_readings,
    "experience": told_of_experience,
}


@pytest.mark.parametrize("name", HELD)
def test_what_decisions_are_made_of_is_what_it_was(name: str) -> None:
    assert TOLD[name]() == {what: pytest.approx(figures, rel=1e-6, abs=1e-9) for what, figures in HELD[name].items()}
