"""Two candidate command sequences asked of the chosen model, and the simulator's word on changed commands."""

from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.demo.chapter import ChapterResult
from crossfeed.demo.selection import RELEASED, is_locked, model_folder
from crossfeed.demo.tables import SOURCE
from crossfeed.ingest.table import Group, Table
from crossfeed.json_file import read_sealed
from crossfeed.serving.result import WhatIfResult

FORECAST, EVALUATION = "forecast", "evaluation"
MACHINES = {"target": "spinner_630", "source": "spinner_620"}
SECONDS = 60.0


def asked_table(folder: Path) -> Path:
    """The machine that is asked about: the target once it was opened, the source before."""
    return folder / (RELEASED if is_locked(folder) else SOURCE)


def forecast(folder: Path, simulated: bool) -> ChapterResult:
    """Forecast under two plans and say what they cost: an NC program, or what followed in a real log; feeds at 80 %."""
    from crossfeed.front.what_if import what_if

    table = Table.read(asked_table(folder))
    plans: dict[str, Any] = {"as programmed": "bundled:pla_cover", "feed 80 %": "bundled:pla_cover@feed=80"}
    session, at, seconds = None, None, None
    if not simulated:
        group = max(table.groups, key=len)
        middle = len(group) // 2
        plans = {"as it went on": "table", "feed 80 %": slower(table, group, middle)}
        session, at, seconds = group.session, middle * table.period, SECONDS
    answer = what_if(
        model_folder(folder), table, plans, session=session, at=at, seconds=seconds, samples=32, device="cpu",
        out=folder / FORECAST,
    )  # fmt: skip
    return ChapterResult(in_words(answer.result), (f"{FORECAST}/forecast.json", f"{FORECAST}/forecast.png"))


def slower(table: Table, group: Group, middle: int) -> np.ndarray:
    """The commands that followed the middle of a session, with the feeds at 80 %."""
    rows = table.commands[group.start + middle + 1 : group.stop]
    return rows * [0.8 if name.startswith("feed_") else 1.0 for name in table.schema.command_names]


def in_words(answer: WhatIfResult) -> str:
    """Duration and energy of each plan (where no power is measured, a peak), and how sure the difference is."""
    parts = []
    for name, plan in answer.plans.items():
        sensor = next((sensor for sensor in plan.peaks if sensor.startswith("spindle")), next(iter(plan.peaks)))
        what, found = ("", plan.energy) if plan.energy else (f"peak {sensor} ", plan.peaks[sensor])
        numbers = f"{found.mean:.3g} {found.unit} ({found.low:.3g} to {found.high:.3g})"
        parts.append(f"{name} {plan.duration:.0f} s, {what}{numbers}")
    said = "; ".join(parts)
    for comparison in answer.comparisons:
        said += f"; the second needs less in {comparison.probability_less:.0%} of the futures"
    return said


def counterfactual(folder: Path) -> ChapterResult:
    """Roll the simulated machine out under changed plans and see how much of the change was foreseen."""
    from crossfeed.evaluation.judge import evaluate

    machine = MACHINES["target" if is_locked(folder) else "source"]
    path = folder / EVALUATION / "evaluation.json"
    if not path.exists():
        evaluate(
            model_folder(folder), asked_table(folder), folder / SOURCE, machine=machine,
            out=folder / EVALUATION, device="cpu",
        )  # fmt: skip
    found = read_sealed(path)["counterfactual"]
    altered = {name: row for name, row in found.items() if isinstance(row, dict) and "rmse_persistence" in row}
    said = ", ".join(f"{name} {row['rmse']:.2f} ({row['rmse_persistence']:.2f})" for name, row in altered.items())
    return ChapterResult(
        f"{found['cases']} moments of {machine}; RMSE under the changed plan, in brackets persistence: {said}",
        (f"{EVALUATION}/evaluation.json",),
    )
