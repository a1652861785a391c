"""Rivals that were run on the same windows take part in the verdict; those of other windows do not."""

import json
from pathlib import Path
from typing import Any

from crossfeed.front.report.artefacts import Artefacts, gather
from crossfeed.front.report.page import Section
from crossfeed.front.report.sections.beside import THIS_MODEL, comparison
from crossfeed.front.report.sections.verdict import against_rivals, rivals, verdict
from tests.front.report import material


def with_rivals(place: Path, *results: dict[str, Any]) -> Artefacts:
    material.write(place.parent / "comparison" / "table.json", material.comparison(results))
    return gather(place)


def on_target(place: Path) -> tuple[int, float, dict[str, float]]:
    """Windows, RMSE, and RMSE by channel of the model itself."""
    path = place.parent / "evaluation" / "target" / "evaluation.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    channels = {name: row["metrics"]["rmse"] for name, row in content["by_channel"]["run"].items()}
    return content["windows"], content["scores"]["run"]["rmse"], channels


def test_a_rival_ahead_was_not_mentioned_in_the_verdict(complete: Path) -> None:
    windows, rmse, channels = on_target(complete)
    ahead = material.result("ridge", windows, 0.5 * rmse, {name: 0.5 * error for name, error in channels.items()})
    found = with_rivals(complete, ahead, material.result("gru", windows, 3 * rmse, {}))
    told = "Of 2 rivals that were run on the same windows one is as good or better by RMSE: ridge ("
    assert told in against_rivals(found)
    box = verdict(found)
    assert against_rivals(found) in box.sentences
    judged = [light for light in box.lights if light.light != "unknown"]
    assert judged
    assert all(light.light != "good" for light in judged)
    assert all(any("ridge is as good or better" in reason for reason in light.reasons) for light in judged)


def test_a_rival_behind_takes_nothing_away(complete: Path) -> None:
    windows, rmse, channels = on_target(complete)
    before = [light.light for light in verdict(gather(complete)).lights]
    behind = material.result("ridge", windows, 2 * rmse, {name: 2 * error for name, error in channels.items()})
    found = with_rivals(complete, behind)
    assert "none is as good by RMSE; the best is ridge" in against_rivals(found)
    assert [light.light for light in verdict(found).lights] == before


def test_rivals_on_other_windows_and_our_own_arms_do_not_count(complete: Path) -> None:
    windows, rmse, _ = on_target(complete)
    others = [material.result("ridge", windows + 1, 0.1 * rmse, {})]
    others += [material.result(name, windows, 0.1 * rmse, {}) for name in ("crossfeed", "paper", "persistence")]
    found = with_rivals(complete, *others)
    assert rivals(found) == []
    assert against_rivals(found) == ""


def test_seeds_of_a_rival_are_averaged(complete: Path) -> None:
    windows, _, _ = on_target(complete)
    found = with_rivals(
        complete,
        material.result("gru", windows, 1.0, {"current": 1.0, "power": None}),
        material.result("gru", windows, 2.0, {"current": 3.0, "power": 1.0}),
    )
    (only,) = rivals(found)
    assert (only.rmse, dict(only.by_channel)) == (1.5, {"current": 2.0})


def test_our_model_was_missing_in_the_plot_of_the_baselines(complete: Path) -> None:
    windows, rmse, _ = on_target(complete)
    found = with_rivals(complete, material.result("ridge", windows, 2 * rmse, {}))
    section = Section("comparison", "", "", tuple(comparison(found)))
    (figure,) = section.figures()
    for panel in figure.panels:
        assert panel.rows[0] == THIS_MODEL  # type: ignore[union-attr]
    target = next(table for table in section.tables() if table.name == "comparison-target")
    assert target.rows[0]["model"] == THIS_MODEL
    assert target.rows[0]["rmse"] == rmse
