from crossfeed.demo.what_if import in_words

PEAKS = {
    "x_load": {"mean": 12.0, "low": 8.0, "high": 20.0, "unit": "%"},
    "spindle_load": {"mean": 40.0, "low": 30.0, "high": 55.0, "unit": "%"},
}
ENERGY = {"mean": 59.7, "low": 10.9, "high": 111.0, "unit": "Wh"}


def _plan(energy: dict[str, object] | None) -> dict[str, object]:
    return {"duration": 60.0, "energy": energy, "peaks": PEAKS}


def test_energy_is_told_with_its_interval_and_the_comparison() -> None:
    content = {"plans": {"as programmed": _plan(ENERGY)}, "comparisons": [{"probability_less": 0.34}]}
    assert in_words(content) == (
        "as programmed 60 s, 59.7 Wh (10.9 to 111); the second needs less in 34% of the futures"
    )


def test_without_a_power_sensor_a_peak_of_the_spindle_is_told() -> None:
    content = {"plans": {"as it went on": _plan(None)}, "comparisons": []}
    assert in_words(content) == "as it went on 60 s, peak spindle_load 40 % (30 to 55)"
