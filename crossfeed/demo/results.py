"""After the opening: baselines on the same windows, two plans compared, the last page, and a machine watched live."""

import json
import logging
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from crossfeed.demo.chapter import JOBS, RIVALS, ChapterResult
from crossfeed.demo.selection import (
    LOCK,
    REFUSAL,
    RELEASED,
    SOURCE,
    STUDY,
    chosen_run,
    is_locked,
    model_folder,
    opening,
)
from crossfeed.errors import ConfigError
from crossfeed.evaluation.baselines.budget import Budget
from crossfeed.evaluation.baselines.compare import compare
from crossfeed.evaluation.baselines.regression import missing_library
from crossfeed.files import read_sealed, write_sealed
from crossfeed.logs.table import Group, Table
from crossfeed.programs.parse import program_path
from crossfeed.progress import console
from crossfeed.scenarios.result import WhatIf
from crossfeed.sim.servers.serve import SimulatedFeed, make_server, serve
from crossfeed.studio.service import LiveSetup, make_service, start
from crossfeed.studio.settings import ServeSettings
from crossfeed.study.study import Study
from crossfeed.training.config import TrainingConfig

COMPARISON, TABLE = "comparison", "comparison/table.json"


def budget(training: TrainingConfig) -> Budget:
    """As many batches of the same size as a run of the study has."""
    assert training.steps_per_epoch is not None
    epochs = sum(training.stages.values())
    return Budget(
        epochs=epochs,
        pretext_epochs=epochs // 4,
        steps=training.steps_per_epoch,
        batch_size=training.batch_size,
        validation_windows=training.validation_windows,
        learning_rate=training.learning_rate,
        tree_rounds=40,
        tree_windows=training.steps_per_epoch * training.batch_size * 2,
    )


def rivals(folder: Path) -> ChapterResult:
    """Train and score them; without a lock the target is sealed and they meet on the source alone."""
    target = Table.read(folder / RELEASED) if is_locked(folder) else None
    config = Study(folder / STUDY).config
    models = [name for name in RIVALS if name != "trees" or not missing_library()]
    compare(
        [Table.read(folder / SOURCE)], target, folder / COMPARISON,
        models=",".join(models), seeds=1, budget=budget(config.training), size="tiny", config=config,
        device="cpu", jobs=JOBS,
    )  # fmt: skip
    judged = "source" if target is None else "target"
    said = ", ".join(f"{name} {mean[f'{judged}.rmse']:.3f}" for name, mean in finished_rivals(folder).items())
    return ChapterResult(f"RMSE on the {judged}: {said}", (TABLE,))


def finished_rivals(folder: Path) -> dict[str, dict[str, Any]]:
    """The mean metrics of every model that came to an end, as the comparison wrote them down."""
    rows = read_sealed(folder / TABLE)["rows"]
    return {row["model"]: row["mean"] for row in rows if row["seeds"]}


HEADLINE = "headline.json"
METRICS = {"rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "coverage90": "in 90 %"}


def headline(folder: Path) -> dict[str, Any]:
    """Everything the last table shows, as plain data."""
    judged = "target" if is_locked(folder) else "source"
    rows = {
        name: {metric: mean[f"{judged}.{metric}"] for metric in METRICS}
        for name, mean in finished_rivals(folder).items()
    }
    content: dict[str, Any] = {"judged_on": judged, "locked": is_locked(folder), "model": chosen_run(folder)}
    if is_locked(folder):
        found = opening(folder)
        name = content["model"]
        rows = {"crossfeed (locked)": {metric: found["scores"][name][metric] for metric in METRICS}, **rows}
        content["windows"], content["runs"] = found["windows"], len(found["runs"])
        adapted = found.get("adaptation", {})
        if "few_shot" in adapted:
            content["few_shot"] = {
                str(row["fraction"]): row["metrics"]["rmse"] for row in adapted["few_shot"]["fractions"]
            }
        if "online" in adapted:
            content["online"] = {name: adapted["online"][name]["rmse"] for name in ("zero_shot", "online")}
    else:
        content["refused"] = json.loads((folder / REFUSAL).read_text(encoding="utf-8"))
    content["rows"] = rows
    write_sealed(folder / HEADLINE, content)
    return content


def sentences(content: dict[str, Any], simulated: bool) -> list[str]:
    """What belongs beside the numbers."""
    said = ["Errors in standard deviations of the source machine; in 90 %: share of truths inside the 90 % interval."]
    if "few_shot" in content:
        steps = ", ".join(f"{float(share):.0%}: {rmse:.3f}" for share, rmse in content["few_shot"].items())
        said.append(f"Few-shot, RMSE after learning from the first part of each run, judged on the rest: {steps}.")
    if "online" in content:
        before, after = content["online"]["zero_shot"], content["online"]["online"]
        said.append(f"Online, RMSE without and with learning while the machine runs: {before:.3f}, {after:.3f}.")
    if not content["locked"]:
        said.append(f"The lock was refused ({'; '.join(content['refused'])}), so the target stayed sealed.")
    if simulated:
        said.append("Both machines are simulated; thws and joanneum are the formats of their logs, not the data sets.")
    else:
        said.append("One physical machine: the target is its later runs with sensors taken away, not another machine.")
    said.append("Minutes of training on a narrow model: this shows how the work goes, not how good it gets.")
    return said


MACHINE, PROGRAM = "spinner_630", "bundled:face_pocket"


def show_live(folder: Path, port: int = 8400, open_page: bool = True) -> None:
    """Serve the locked model of a finished demo beside a simulated machine, until Ctrl-C."""
    feed = SimulatedFeed(MACHINE, PROGRAM)
    opcua = free_port()
    console().print(f"Machine B ({feed.name}) works on {feed.program} behind OPC UA; the locked model looks on.")
    for library in ("asyncua", "transitions"):
        logging.getLogger(library).setLevel(logging.CRITICAL)

    async def work(ready: Callable[[], None]) -> None:
        await serve(feed, make_server("opcua", feed, opcua), on_ready=lambda _: ready())

    programs = program_path(PROGRAM).parent
    live = LiveSetup(f"opc.tcp://127.0.0.1:{opcua}/crossfeed", programs=programs, companion=work)
    start(make_service(locked_model(folder), ServeSettings(port=port), live=live, runs=(folder,)), open_page=open_page)


def locked_model(folder: Path) -> Path:
    """The model that the demo locked before machine B was opened."""
    lock = folder / LOCK
    if not lock.is_file():
        raise ConfigError(
            f"The demo in {folder} has locked no model.",
            expected="a demo that was told to its end",
            remedy="Run crossfeed demo in another folder with --out.",
        )
    run = json.loads(lock.read_text(encoding="utf-8"))["run"]
    return folder / STUDY / "runs" / str(run) / "model.safetensors"


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


FORECAST, EVALUATION = "forecast", "evaluation"
MACHINES = {"target": "spinner_630", "source": "spinner_620"}
SECONDS = 60.0


def asked_table(folder: Path) -> Path:
    """The machine that is asked about: the target once it was opened, the source before."""
    return folder / (RELEASED if is_locked(folder) else SOURCE)


def forecast(folder: Path, simulated: bool) -> ChapterResult:
    """Forecast under two plans and say what they cost: an NC program, or what followed in a real log; feeds at 80 %."""
    from crossfeed.front.fitted_model import what_if

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
    return ChapterResult(in_words(answer), (f"{FORECAST}/forecast.json", f"{FORECAST}/forecast.png"))


def slower(table: Table, group: Group, middle: int) -> np.ndarray:
    """The commands that followed the middle of a session, with the feeds at 80 %."""
    rows = table.commands[group.start + middle + 1 : group.stop]
    return rows * [0.8 if name.startswith("feed_") else 1.0 for name in table.schema.command_names]


def in_words(answer: WhatIf) -> str:
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
    from crossfeed.sim.counterfactual import on_simulated_machine

    machine = MACHINES["target" if is_locked(folder) else "source"]
    path = folder / EVALUATION / "evaluation.json"
    if not path.exists():
        evaluate(
            model_folder(folder), asked_table(folder), folder / SOURCE,
            changed_plans=partial(on_simulated_machine, machine=machine), out=folder / EVALUATION, device="cpu",
        )  # fmt: skip
    found = read_sealed(path)["counterfactual"]
    altered = {name: row for name, row in found.items() if isinstance(row, dict) and "rmse_persistence" in row}
    said = ", ".join(f"{name} {row['rmse']:.2f} ({row['rmse_persistence']:.2f})" for name, row in altered.items())
    return ChapterResult(
        f"{found['cases']} moments of {machine}; RMSE under the changed plan, in brackets persistence: {said}",
        (f"{EVALUATION}/evaluation.json",),
    )
