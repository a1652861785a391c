"""One program on one simulated machine: everybody from the same state, judged by the simulator."""

import time
from dataclasses import dataclass

import numpy as np
from control_programs import kind_of, random_program
from control_receding import AsWritten, Past, Planner, PolicyController, controlled
from control_rivals import AdaptiveConfig, AdaptiveFeed, LoadRule, oracle

from crossfeed.control.earlier_runs import LoggedRows
from crossfeed.control.load_forecast import CuttingLaw
from crossfeed.control.machine import Workpiece
from crossfeed.control.task import read_task
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import cost_by_place
from crossfeed.schema import canonical
from crossfeed.sim.physics.catalogue import machine_named, random_machine
from crossfeed.sim.simulate import related

MACHINES = ("spinner_620", "spinner_630", "fleet:0", "fleet:1", "fleet:2", "fleet:3")
ROOMS = (1.05, 1.15, 1.25)  # the limit over the 98 % quantile of the cutting load in the earlier run, in turn
LEVELS = (0.9, 1.0, 1.1, 1.2)  # of adaptive feed control
OTHER = 5000  # added to a number: another program, which the machine has cut before
ROUNDS = 5  # of the oracle


@dataclass(frozen=True, eq=False)
class Played:
    """A program that was run as written."""

    piece: Workpiece
    timeline: Timeline
    run: object
    rows: LoggedRows


def machine_of(name):
    if name.startswith("fleet:"):
        return related([random_machine(number) for number in range(4)])[int(name.split(":")[1])]
    return machine_named(name)


def played(number, kind, machine, seed, length_s):
    """A run as written after some seconds of standing, as the machine's log has it."""
    piece = Workpiece.of(random_program(number, kind, length_s), f"part{number}", machine)
    timeline = Timeline.of(piece.program, canonical(), 1.0, piece.motion_limits)
    past = Past.idle(piece, seed)
    run = controlled(piece, timeline, read_task(None, {}), AsWritten(), past)
    sensors = np.concatenate([past.sensors_RC, [row.sensors for row in run.rows]])
    commands = np.concatenate([past.commands_RA, [row.commands for row in run.rows]])
    return Played(piece, timeline, run, LoggedRows(sensors, commands, timeline.name))


@dataclass(frozen=True, eq=False)
class Setting:
    """A part to be cut: the log holds another program and, but for the first part, one earlier run of this one."""

    machine: object
    kind: str
    sensor: str
    other: Played
    taught: Played
    task: object
    start: Past  # of the part
    start_again: Past  # the same with other noise

    def law(self, *logs):
        return CuttingLaw.from_logs(
            canonical(), *(np.concatenate([getattr(r, part) for r in logs]) for part in ("sensors_RC", "commands_RA"))
        )

    def trial(self, controller, start=None):
        piece, timeline = self.taught.piece, self.taught.timeline
        return controlled(piece, timeline, self.task, controller, start or self.start)


def setting(name, number, length_s):
    """The machine, its log, the limit and the state in which everybody begins."""
    machine, kind, schema = machine_of(name), kind_of(number), canonical()
    other = played(number + OTHER, "roughing", machine, 300 + number, length_s)
    taught = played(number, kind, machine, 100 + number, length_s)
    piece, timeline = taught.piece, taught.timeline
    sensor = "spindle_torque" if "spindle_torque" in machine.logging.sensors else "spindle_power"
    column = schema.sensor_names.index(sensor)
    at = np.minimum(taught.run.position.astype(int), len(timeline) - 1)
    cut = timeline.cutting if timeline.cutting[at].any() else timeline.feed_share_T > 0.0  # pecks shorter than a second
    load = np.array([row.truth[column] for row in taught.run.rows])[cut[at]]
    highest = ROOMS[number % len(ROOMS)] * float(np.quantile(load, 0.98))
    task = read_task(None, {"objective": {"base_load": "1.4 kW"}, "limits": [f"{sensor}<={highest:.4f}"]})
    again, further = Past.idle(piece, 500 + number), Past.idle(piece, 900 + number)
    start = Past(
        np.concatenate([other.rows.sensors_RC, again.sensors_RC]),
        np.concatenate([other.rows.commands_RA, again.commands_RA]),
        again.state,
    )
    return Setting(machine, kind, sensor, other, taught, task, start, further)


def case(model, name, number, length_s, policies):  # noqa: ARG001
    """The planner with an earlier run, the program as written, once more with other noise, and the oracle."""
    part = setting(name, number, length_s)
    both = (part.other.rows, part.taught.rows)
    planner = Planner(model, part.law(*both), both)
    found, seconds = _tried(part, [AsWritten(), planner])
    found["as written, again"] = part.trial(AsWritten(), part.start_again)
    found["oracle"] = oracle(part.taught.piece, part.taught.timeline, part.task, part.start, ROUNDS)
    return _line(name, number, part, found, planner, seconds)


def first_part(model, name, number, length_s, policies):  # noqa: ARG001
    """The same part without an earlier run of it: loads come from the model."""
    part = setting(name, number, length_s)
    log = (part.other.rows,)
    planner = Planner(model, part.law(*log), log, name="planner, first part")
    found, seconds = _tried(part, [AsWritten(), planner])
    return _line(name, number, part, found, planner, seconds)


def others(model, name, number, length_s, policies):  # noqa: ARG001
    """What controls offer today, and policies that were learned."""
    part, schema = setting(name, number, length_s), canonical()
    law = part.law(part.other.rows, part.taught.rows)
    timeline, taught = part.taught.timeline, part.taught.run
    rule = [LoadRule(schema, part.task.limits_of(schema)[0].highest, part.sensor)] if number % 8 == 0 else []
    adaptive = [
        AdaptiveFeed(schema, law, timeline, taught, AdaptiveConfig(level=level), f"adaptive feed at {level:.0%}")
        for level in LEVELS
    ]
    learned = [PolicyController(policy, title) for title, policy in policies.items()]
    found, _ = _tried(part, [AsWritten(), *rule, *adaptive, *learned])
    return _line(name, number, part, found)


def _tried(part, controllers):
    """Their runs from the same state, and the seconds that each of them took to think."""
    found, seconds = {}, {}
    for controller in controllers:
        begun = time.perf_counter()
        found[controller.name] = part.trial(controller)
        seconds[controller.name] = time.perf_counter() - begun
    return found, seconds


def _line(name, number, part, found, planner=None, seconds=None):
    row = {
        "machine": name, "number": number, "kind": part.kind, "limit": part.task.limits_of(canonical())[0].title,
        "room": ROOMS[number % len(ROOMS)], "runs": {each: _numbers(run) for each, run in found.items()},
        "decisions": {}, "seconds_per_decision": {},
    }  # fmt: skip
    if planner is not None:
        pace = (seconds[planner.name] - seconds["as written"]) / max(len(planner.decisions), 1)
        row["decisions"][planner.name] = _decisions(planner, found, part.taught.timeline, part.task)
        row["seconds_per_decision"][planner.name] = pace
    return row


def _numbers(run):
    """Totals, and how many of the rows above a limit had a raised feed."""
    numbers = {key: getattr(run, key) for key in ("seconds", "energy", "cost", "passed", "cutting")}
    return {**numbers, "passed_faster": int((run.above & (run.knobs[:, 0] > 1.005)).sum())}


def _decisions(planner, found, timeline, task):
    """Every decision with its promised gain and, from the same places of both runs, the true one."""
    written, planned = (cost_by_place(found[who], timeline, task) for who in ("as written", planner.name))
    rows = []
    for position, decision in planner.decisions:
        choice = decision.choices[0]
        first = min(round(position), len(timeline) - 1)
        last = min(first + choice.last + 1, len(timeline))
        own = slice(0, last - first)
        acts = max(np.abs(knob_T[own] - 1.0).max() for knob_T in (decision.feed_T, decision.spindle_T)) > 1e-3
        true = float(written[first:last].sum() - planned[first:last].sum())
        rows.append({"acts": bool(acts), "verdict": choice.verdict, "true": true,
                     "low": choice.gain.low, "mean": choice.gain.mean, "high": choice.gain.high})  # fmt: skip
    return rows
