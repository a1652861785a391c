"""The truth about commands: forecasts under changed plans against the simulator rolled out under them.

K context rows, T planned rows. Every case is a moment of a job: the machine is stopped there, restored, and played on
as it was and under each alteration, with the same noise along the same path. Other commands are carried out as asked;
knobs re-time the program as a control does. Cases become ordinary tables with one window per group, so everything else
of the evaluation applies to them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from crossfeed.errors import ConfigError, TableError
from crossfeed.evaluation.command_use import ratio, with_plan
from crossfeed.evaluation.forecaster import BATCH, Forecaster, naive_baselines
from crossfeed.evaluation.metrics import EvaluationSet, score_windows
from crossfeed.evaluation.opened_model import WorldModelForecaster
from crossfeed.evaluation.statistics import Interval, bootstrap
from crossfeed.files import plain
from crossfeed.logs.table import Group, Table
from crossfeed.progress import progress
from crossfeed.schema import canonical
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.cutting import material_named
from crossfeed.sim.physics.inputs import DriveInputs, travel
from crossfeed.sim.physics.jobs import OverrideSchedule, Playback, overridden, play
from crossfeed.sim.physics.production import open_shop
from crossfeed.sim.physics.rollout import SimulatedMachine, Trace
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.windows import WindowBatch, WindowSet

FACTUAL = "factual"
Commands = Callable[[np.ndarray], np.ndarray]  # changes the four commands (spindle speed, feeds) of the seconds to come
# What each alteration means, and what it is: other commands second by second, or knobs turned from the moment on.
ALTERATIONS: dict[str, tuple[str, Commands | OverrideSchedule]] = {
    "spindle stop": ("spindle and feeds stop", lambda plan: plan * 0.0),
    "feed hold": ("feeds stop, the spindle goes on", lambda plan: plan * [1.0, 0.0, 0.0, 0.0]),
    "feed 60 %": ("all feeds at 60 %", lambda plan: plan * [1.0, 0.6, 0.6, 0.6]),
    "speed 70 %": ("spindle at 70 %", lambda plan: plan * [0.7, 1.0, 1.0, 1.0]),
    "reversed plan": ("the planned seconds in reverse order", lambda plan: plan[::-1]),
    "override 60 %": ("the program goes on under a feed override of 60 %", OverrideSchedule.of(feed=0.6)),
}


def on_simulated_machine(forecaster: WorldModelForecaster, space: Normaliser, machine: str) -> dict[str, Any]:
    """What a model makes of changed plans on a simulated machine of this name, as it is recorded."""
    model = forecaster.model
    if model.schema.fingerprint != canonical().fingerprint:
        raise ConfigError(
            "Simulated machines speak the canonical schema, the model another one.",
            expected="a model of the canonical channels",
            remedy="Leave --machine away.",
        )
    context, horizons = model.config.context, model.horizons
    tables = counterfactual_tables(SimulatedMachine(machine_named(machine)), context, horizons[-1])
    errors = counterfactual_error(forecaster, tables, model.normaliser, space, context, horizons, model.device)
    return {"machine": machine, **plain(errors)}


def counterfactual_tables(
    machine: SimulatedMachine, context: int, longest: int, cases_per_job: int = 8, seconds: int = 240
) -> dict[str, Table]:
    """The same moments as they went on and as they would have gone on, one table for each alteration."""
    shop = open_shop(machine.parameters)
    rows: dict[str, list[tuple[str, np.ndarray, np.ndarray]]] = {name: [] for name in (FACTUAL, *ALTERATIONS)}
    with progress("Rolling out counterfactuals", len(shop.products)) as task:
        for number, product in enumerate(shop.products):
            job, material = shop.jobs[product.program], material_named(product.material)
            played = play(job, material, machine.time_step)
            draw = np.random.default_rng([0, number])
            whole = int(min(seconds, product.seconds))
            for past, futures in _moments(machine, played, whole, context, longest, cases_per_job, draw, number):
                for name, future in futures.items():
                    both = [_rows(machine, trace) for trace in (past, future)]
                    sensors, commands = (np.concatenate([part[kind] for part in both]) for kind in (0, 1))
                    rows[name].append((product.program, sensors, commands))
            task.advance()
    return {name: _table(machine, cases) for name, cases in rows.items()}


def _moments(
    machine: SimulatedMachine, played: Playback, whole: int, context: int, longest: int, cases: int,
    draw: np.random.Generator, seed: int,
) -> Iterator[tuple[Trace, dict[str, Trace]]]:  # fmt: skip
    """Stop the machine at random moments of the first `whole` seconds; what was logged before, every future after."""
    second = round(1.0 / machine.time_step)
    if whole < context + longest + 1:
        return
    possible = np.arange(context, whole - longest)
    state, reached = machine.rest(seed), 0
    for stop in sorted(draw.choice(possible, size=min(cases, len(possible)), replace=False).tolist()):
        start = stop - context
        if start > reached:
            _, state = machine.run(played.inputs[reached * second : start * second], state)
            reached = start
        past, now = machine.run(played.inputs[start * second : stop * second], state)
        ahead, steps = played[stop * second :], longest * second
        futures = {FACTUAL: machine.run(ahead.inputs[:steps], now)[0]}
        for name, (_, change) in ALTERATIONS.items():
            futures[name] = machine.run(_altered(ahead, change, machine.time_step, steps), now)[0]
        yield past, futures


def _altered(ahead: Playback, change: Commands | OverrideSchedule, time_step: float, steps: int) -> DriveInputs:
    """The next steps of a program under an alteration, with the engagement of the places it reaches."""
    if isinstance(change, OverrideSchedule):
        return overridden(ahead, change, time_step, steps).inputs
    return travel(ahead.inputs, change(ahead.inputs.commands[:steps]))


def _rows(machine: SimulatedMachine, trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Sensors and commands at 1 Hz as this machine's log gives them: samples of a slow log, means of a fast one."""
    second = round(1.0 / machine.time_step)
    if machine.parameters.logging.period >= 1.0:
        sensors, commands = trace.sensors[second - 1 :: second], trace.commands[second - 1 :: second].copy()
    else:
        means = trace.resample(1.0)
        sensors, commands = means.sensors, means.commands.copy()
    commands[:, 0] = np.abs(commands[:, 0])
    hidden = [name not in machine.parameters.logging.sensors for name in canonical().sensor_names]
    return np.where(hidden, np.nan, sensors), commands


def _table(machine: SimulatedMachine, cases: list[tuple[str, np.ndarray, np.ndarray]]) -> Table:
    if not cases:
        raise TableError(
            "No job is long enough for one counterfactual.", expected="jobs longer than context and longest horizon"
        )
    length = len(cases[0][1])
    groups = tuple(
        Group(machine.parameters.name, f"case{number}", program, program, number * length, (number + 1) * length)
        for number, (program, _, _) in enumerate(cases)
    )
    time = np.tile(np.arange(1.0, length + 1.0), len(cases))
    sensors, commands = (np.concatenate([case[kind] for case in cases]) for kind in (1, 2))
    return Table(canonical(), groups, time, sensors, commands, 1.0, {"origin": "simulated counterfactuals"})


def counterfactual_error(
    forecaster: Forecaster, tables: dict[str, Table], normaliser: Normaliser, space: Normaliser, context: int,
    horizons: tuple[int, ...], device: torch.device | str = "cpu",
) -> dict[str, Any]:  # fmt: skip
    """Errors under each altered plan, with intervals over jobs, beside persistence and beside the plan not told."""
    sets = {}
    for name, table in tables.items():
        windows = WindowSet.build(table, None, normaliser, context, horizons, device=device)
        sets[name] = EvaluationSet(windows, table.schema, normaliser, space, "run")
    factual = sets[FACTUAL]
    persistence = naive_baselines(horizons)[0]
    result: dict[str, Any] = {
        "cases": len(factual.windows),
        "jobs": list(factual.runs),
        FACTUAL: {"rmse": score_windows(forecaster, factual).metrics()["rmse"]},
    }
    for name, (meaning, _) in ALTERATIONS.items():
        data = sets[name]

        def old_plan(batch: WindowBatch, part: torch.Tensor) -> WindowBatch:
            return with_plan(batch, factual.windows.batch(part.to(device)).future_a_BTA, horizons)

        informed, floor = score_windows(forecaster, data), score_windows(persistence, data)
        uninformed = score_windows(forecaster, data, change=old_plan)
        result[name] = {
            "meaning": meaning,
            "rmse": informed.metrics()["rmse"],
            "rmse_not_told": uninformed.metrics()["rmse"],
            "rmse_persistence": floor.metrics()["rmse"],
            "ratio_to_not_told": ratio(informed, uninformed, "squared"),
            "ratio_to_persistence": ratio(informed, floor, "squared"),
            "effect_r2": _effect(forecaster, data, factual),
        }
    return result


def _effect(forecaster: Forecaster, data: EvaluationSet, factual: EvaluationSet) -> Interval:
    """How much of the change that the alteration made is foreseen: 1 all of it, 0 as little as foreseeing no change."""
    _, scale = data.to_space()
    sums = np.zeros((len(data.runs), 2))
    with torch.no_grad():
        for part in torch.split(torch.arange(len(data.windows)), BATCH):
            index = part.to(data.windows.last_W.device)
            after, before = data.windows.batch(index), factual.windows.batch(index)
            present = (after.future_m_BHC & before.future_m_BHC).cpu()
            true = scale * (after.future_x_BHC - before.future_x_BHC).cpu().double()
            foreseen = scale * (forecaster.predict(after).mean - forecaster.predict(before).mean).cpu().double()
            for column, values in enumerate(((foreseen - true).square(), true.square())):
                per_window = torch.where(present, values, 0.0).sum((1, 2)).numpy()
                np.add.at(sums[:, column], data.run_W[part].numpy(), per_window)
    return bootstrap(sums, lambda total: 1.0 - total[:, 0] / total[:, 1])
