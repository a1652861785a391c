"""Recorded results of every kind, small and quick to make, in the shape in which the other rooms write them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crossfeed.evaluation.bench.result import Crossing, CurvePoint, LearningCurve
from crossfeed.evaluation.forecaster import naive_baselines
from crossfeed.evaluation.judge import JudgedModel, judge
from crossfeed.evaluation.result import ModelFacts, TableFacts
from crossfeed.files import write_json, write_sealed
from tests.evaluation.small_machine import HORIZONS, Physicist, evaluation_set, normaliser_of, small_table

LEVELS = ("0.5", "0.8", "0.9", "0.95")


def evaluation(own: bool = False, name: str = "run", machine: str = "lathe") -> dict[str, Any]:
    """What `crossfeed evaluate --suite full --machine` writes, with a forecaster that needs no training."""
    source = small_table()
    table = source if own else small_table(runs=5, machine=machine, level=0.3, seed=4)
    data = evaluation_set(table, normaliser_of(source))
    physicist = Physicist(data.normaliser, level=0.0 if own else 0.3)
    physicist.name = name
    known = naive_baselines(HORIZONS)
    for floor in known:
        floor.fit(data.windows, data.windows, 0)
    found = replace(
        judge([JudgedModel(physicist, data)], known, 1.0, "full"),
        model=ModelFacts("model.safetensors", name, "0" * 64),
        table=TableFacts("table.parquet", "1" * 64, tuple(table.machines())),
        part="test" if own else "all",
        trained_on_this_table=own,
    )
    content = found.to_dict()
    if not own:
        effect = {"estimate": 0.4, "low": 0.3, "high": 0.5, "units": 6}
        content["counterfactual"] = {
            "machine": machine,
            "cases": 12,
            "jobs": ["a", "b"],
            "factual": {"rmse": 0.3},
            "feed hold": {
                "meaning": "feeds stop",
                "rmse": 0.3,
                "rmse_not_told": 0.4,
                "rmse_persistence": 0.6,
                "effect_r2": effect,
            },
        }
    return content


def curve() -> dict[str, Any]:
    """What `crossfeed curve` writes: a model that overtakes the fleet, and one that cannot learn from so little."""
    errors = {"fleet": (0.3, 0.28, 0.25), "tide": (None, 0.4, 0.2), "persistence": (0.5, 0.5, 0.5)}
    points = [
        CurvePoint(
            model, label, minutes, int(crps is not None),
            {**dict.fromkeys(("crps", "rmse", "mae", "nll"), crps), "coverage90": crps and 0.9},
            {}, 1.0, "as it came" if model == "fleet" else "", "" if crps else "too little to learn from: 0 rows",
        )
        for column, (label, minutes) in enumerate((("0", 0.0), ("3", 3.0), ("all", 60.0)))
        for model in errors
        for crps in (errors[model][column],)
    ]  # fmt: skip
    ahead = Crossing("tide", 3.0, 60.0, 22.0, "tide overtakes the fleet between 3 and 60 minutes (about 22)")
    notes = ("Everybody is judged on the same 100 windows.",)
    found = LearningCurve(
        "lathe", 1.0, 60.0, 100, 3, ("current",), "tiny", "quick", tuple(points), (ahead,), notes
    )  # fmt: skip
    return found.to_dict()


def adaptation() -> dict[str, Any]:
    """What `crossfeed adapt` writes, both ways."""
    metrics = {"rmse": 0.5, "mae": 0.3, "r2": 0.9, "crps": 0.2, "nll": 0.4, "coverage90": 0.91}
    ratio = {"estimate": 0.8, "low": 0.7, "high": 0.9, "units": 5}
    rows = [
        {
            "fraction": fraction,
            "support_windows": int(100 * fraction),
            "query_windows": 80,
            "runs_without_support": [],
            "updates": 50 if fraction else 0,
            "parameters_moved": 10,
            "remark": "",
            "metrics": {**metrics, "rmse": 0.5 - fraction},
            "rmse_ratio": ratio,
            "crps_ratio": ratio,
            "runs": {"lathe/run0": 0.5 - fraction, "lathe/run1": 0.6 - fraction},
            "sensors": {},
        }
        for fraction in (0.0, 0.1, 0.2)
    ]
    return {
        "windows": 90,
        "few_shot": {"config": {"mode": "predictor"}, "runs_without_query": [], "fractions": rows},
        "online": {
            "config": {"mode": "predictor"},
            "updates": 12,
            "mae_ratio": ratio,
            "crps_ratio": ratio,
            "parameters_moved": 10,
            "zero_shot": metrics,
            "online": metrics,
            "rmse_ratio": ratio,
            "tracked_coverage": dict.fromkeys(LEVELS, 0.9),
            "by_run": {"lathe/run0": {"zero_shot": 0.5, "online": 0.4}},
            "by_horizon": {"1": {"zero_shot": 0.4, "online": 0.3}, "4": {"zero_shot": 0.6, "online": 0.5}},
        },
    }


def comparison(results: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """What `crossfeed compare` writes as table.json."""
    names = [
        f"{part}.{key}"
        for part in ("source", "target")
        for key in ("rmse", "mae", "crps", "nll", "coverage90", "command_use")
    ]
    on_target = {each["model"]: each["scores"].get("target", {}) for each in results}
    rows = []
    for number, model in enumerate(("persistence", "gru", "crossfeed")):
        mean = {name: 1.0 - 0.1 * number - 0.001 * position for position, name in enumerate(names)}
        spread = dict.fromkeys(names, None if number == 0 else 0.0123456789)
        rows.append(
            {
                "model": model,
                "seeds": 2 if number else 1,
                "diverged": 0,
                "mean": mean,
                "spread": spread,
                "parameters": 1000 * number,
                "seconds": 1.5 * number,
                "uses_future_commands": bool(number),
                "absent": "masked",
                "remark": "",
                "windows": {"target": on_target.get(model, {}).get("windows")},
            }
        )
    failed = {**rows[-1], "model": "trees", "seeds": 0, "mean": dict.fromkeys(names), "spread": dict.fromkeys(names)}
    failed["windows"] = {}
    rows.append({**failed, "remark": "not run: LightGBM is missing"})
    return {"sets": ["source", "target"], "rows": rows, "notes": ["Errors in z-units."], "results": list(results)}


def result(model: str, windows: int, rmse: float, by_channel: Mapping[str, float | None]) -> dict[str, Any]:
    """One model with one seed on the target, as `crossfeed compare` keeps it in table.json."""
    scores = {"windows": windows, "rmse": rmse, "rmse_by_channel": dict(by_channel)}
    return {"model": model, "seed": 0, "status": "finished", "absent": "masked", "scores": {"target": scores}}


def forecast(sensor: str = "power") -> dict[str, Any]:
    """What `crossfeed what-if` writes, two plans."""
    energy = {"mean": 61.0, "low": 55.2, "high": 67.1, "level": 0.9, "unit": "Wh", "sensors": [sensor], "truth": None}

    def plan(level: float) -> dict[str, Any]:
        quantiles = {"0.05": [level - 1, level - 2], "0.5": [level, level], "0.95": [level + 1, level + 2]}
        return {
            "kind": "table",
            "file": "plan.csv",
            "duration": 2.0,
            "time": [1.0, 2.0],
            "commands": {"feed_x": [1.0, 2.0]},
            "sensors": {sensor: {"mean": [level, level], "quantiles": quantiles}},
            "truth": None,
            "energy": energy,
            "peaks": {sensor: {"unit": "kW", "mean": 6.1, "low": 4.8, "high": 7.9, "limit": 5.0, "probability": 0.91}},
            "warnings": [],
        }

    return {
        "format": "crossfeed-forecast/1",
        "model": {"file": "model.safetensors", "name": "run", "sha256": "a" * 64},
        "settings": {
            "samples": 64,
            "seed": 0,
            "persistence": 0.8,
            "context": 32,
            "horizons": [1, 2],
            "levels": [0.05, 0.5, 0.95],
        },
        "history": {
            "file": "log.parquet",
            "fingerprint": "f" * 64,
            "machine": "lathe",
            "run": "r",
            "session": "s",
            "program": "p",
            "at": 60.0,
            "period": 1.0,
            "time": [-1.0, 0.0],
            "sensors": {sensor: [1.0, 1.1]},
            "commands": {"feed_x": [0.0, 0.0]},
        },
        "sensors": {sensor: {"quantity": "power", "unit": "kW"}},
        "commands": {"feed_x": {"quantity": "feed", "unit": "mm/min"}},
        "absent": [],
        "plans": {"fast.csv": plan(2.0), "slow.csv": plan(1.0)},
        "comparisons": [
            {
                "first": "fast.csv",
                "second": "slow.csv",
                "mean": -4.0,
                "low": -6.0,
                "high": -1.9,
                "level": 0.9,
                "unit": "Wh",
                "probability_less": 0.99,
            }
        ],
        "warnings": ["the model never saw lathe"],
    }


def audit(violations: int = 1) -> dict[str, Any]:
    """What `crossfeed audit --json` prints."""
    finding = {
        "check": "units",
        "severity": "violation",
        "subject": "lathe: power",
        "measured": "1,000 times too large",
        "meaning": "W, not kW",
        "cause": "a wrong unit",
        "remedy": "Declare the unit.",
        "numbers": {},
    }
    return {
        "tables": ["a.parquet"],
        "violations": violations,
        "warnings": 0,
        "ran": ["units"],
        "skipped": {},
        "findings": [finding] * violations,
    }


def write(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(path, content) if isinstance(content, Mapping) else write_json(path, content)
    return path
