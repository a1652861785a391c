from dataclasses import replace

from crossfeed.demo.results import in_words
from crossfeed.scenarios.measures import Peak
from crossfeed.scenarios.result import PlanEnergy, WhatIf
from tests.front.report import material

PEAKS = {
    "x_load": Peak("%", 12.0, 8.0, 20.0, None, None),
    "spindle_load": Peak("%", 40.0, 30.0, 55.0, None, None),
}


def _answer(name: str, energy: PlanEnergy | None) -> WhatIf:
    answer = WhatIf.from_dict(material.forecast())
    plan = replace(answer.plans["fast.csv"], duration=60.0, energy=energy, peaks=PEAKS)
    return replace(answer, plans={name: plan}, comparisons=answer.comparisons if energy else [])


def test_energy_is_told_with_its_interval_and_the_comparison() -> None:
    assert in_words(_answer("as programmed", PlanEnergy(59.7, 10.9, 111.0))) == (
        "as programmed 60 s, 59.7 Wh (10.9 to 111); the second needs less in 99% of the futures"
    )


def test_without_a_power_sensor_a_peak_of_the_spindle_is_told() -> None:
    assert in_words(_answer("as it went on", None)) == "as it went on 60 s, peak spindle_load 40 % (30 to 55)"
