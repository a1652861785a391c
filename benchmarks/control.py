"""Decisions judged by the simulator: what planners, rules and an oracle save, and what they break.

Runs in pieces and resumes: every finished (machine, program) is one line of the JSON-lines file.

    python benchmarks/control.py run/ --table source.parquet --programs 20 --out control.jsonl
    python benchmarks/control.py --summarise control.jsonl > benchmarks/control.md
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from control_programs import random_program

from crossfeed.control.adaptive import AdaptiveFeed
from crossfeed.control.controllers import AsWritten, LoadRule, Planner
from crossfeed.control.course import Course
from crossfeed.control.law import CuttingLaw
from crossfeed.control.machine import Workpiece
from crossfeed.control.oracle import oracle
from crossfeed.control.planner import PlannerConfig
from crossfeed.control.task import read_task
from crossfeed.control.trial import Past, cost_by_place, standing, trial
from crossfeed.evaluation.opened_model import open_model
from crossfeed.machines.simulated.catalogue import machine_named, random_machine
from crossfeed.machines.simulated.fleet import related
from crossfeed.schema import canonical

MACHINES = ("spinner_620", "spinner_630", "fleet:0", "fleet:1", "fleet:2", "fleet:3")
ROOM = 1.15  # the torque limit over the 98 % quantile of the teach-in's cutting torque


def machine_of(name):
    if name.startswith("fleet:"):
        return related([random_machine(number) for number in range(4)])[int(name.split(":")[1])]
    return machine_named(name)


def case(opened, name, number, law_rows, length_s):
    """One program on one machine: a teach-in at 100 %, then everybody from the state it left."""
    kind = "finishing" if number % 4 == 1 else "roughing"
    piece = Workpiece.of(random_program(number, kind, length_s), f"part{number}", machine_of(name))
    schema = canonical()
    course = Course.of(piece.program, schema, 1.0, piece.motion_limits)
    free = read_task(None, {"objective": {"base_load": "1.4 kW"}})
    past = standing(piece, seed=100 + number)
    taught = trial(piece, course, free, (), AsWritten(), past)
    at = np.minimum(taught.place.astype(int), len(course) - 1)
    torque = np.array([row.truth[1] for row in taught.rows])
    highest = ROOM * float(np.quantile(torque[course.cutting[at]], 0.98))
    # A machine that shows no torque has the same limit on what it does show: its power.
    shown = piece.machine.parameters.logging.sensors
    sensor = "spindle_torque" if "spindle_torque" in shown else "spindle_power"
    if sensor == "spindle_power":
        power = np.array([row.truth[2] for row in taught.rows])
        highest = ROOM * float(np.quantile(power[course.cutting[at]], 0.98))
    changes = {"objective": {"base_load": "1.4 kW"}, "limits": [f"{sensor}<={highest:.4f}"]}
    task = read_task(None, changes)
    limits = task.limits_of(schema)
    rows = (np.concatenate([past.sensors_RC, taught.sensors]), np.concatenate([past.commands_RA, taught.commands]))
    known = rows if name != "spinner_620" else tuple(np.concatenate(pair) for pair in zip(law_rows, rows))
    law = CuttingLaw.from_logs(schema, *known)
    again = standing(piece, seed=500 + number)
    start = Past(np.concatenate([rows[0], again.sensors_RC]), np.concatenate([rows[1], again.commands_RA]), again.state)
    planner = Planner(opened.model, law, limits, PlannerConfig())
    adaptive = AdaptiveFeed(schema, law, course, taught)
    found, seconds = {}, {}
    for controller in (AsWritten(), LoadRule(schema, highest, sensor), adaptive, planner):
        begun = time.perf_counter()
        found[controller.name] = trial(piece, course, task, limits, controller, start)
        seconds[controller.name] = time.perf_counter() - begun
    found["oracle"] = oracle(piece, course, task, limits, start)
    return {
        "machine": name, "number": number, "kind": kind, "limit": limits[0].title,
        "runs": {who: _numbers(run) for who, run in found.items()},
        "decisions": _decisions(planner, found, course, task),
        "seconds_per_decision": (seconds["planner"] - seconds["as written"]) / max(len(planner.decisions), 1),
    }  # fmt: skip


def _numbers(run):
    return {
        "seconds": run.seconds,
        "energy": run.energy,
        "cost": run.cost,
        "passed": run.passed,
        "cutting": run.cutting,
    }


def _decisions(planner, found, course, task):
    """Every decision with its promised gain and, from the same places of both runs, the true one."""
    written, planned = (cost_by_place(found[who], course, task) for who in ("as written", "planner"))
    rows = []
    for place, made in planner.decisions:
        decision = made.decision
        choice = decision.choices[0]
        first = min(round(place), len(course) - 1)
        last = min(first + choice.last + 1, len(course))
        acts = bool(np.abs(decision.feed_T[: last - first] - 1.0).max() > 1e-3)
        true = float(written[first:last].sum() - planned[first:last].sum())
        rows.append({"acts": acts, "verdict": choice.verdict, "true": true,
                     "low": choice.gain.low, "mean": choice.gain.mean, "high": choice.gain.high})  # fmt: skip
    return rows


def summarise(path):
    cases = [json.loads(line) for line in Path(path).read_text().splitlines()]
    who = list(cases[0]["runs"])
    print("| machine | programs | who | time saved | energy saved | limit passed, share of cutting s | regret |")
    print("|---|---|---|---|---|---|---|")
    names = dict.fromkeys(c["machine"] for c in cases)
    groups = [(machine, [c for c in cases if c["machine"] == machine]) for machine in names]
    groups += [(f"all, {kind}", [c for c in cases if c["kind"] == kind]) for kind in ("roughing", "finishing")]
    for machine, own in groups:
        for name in who:
            saved = {key: 100 * np.mean([1 - c["runs"][name][key] / c["runs"]["as written"][key] for c in own])
                     for key in ("seconds", "energy")}  # fmt: skip
            passed = 100 * sum(c["runs"][name]["passed"] for c in own) / sum(c["runs"][name]["cutting"] for c in own)
            gain = sum(c["runs"]["as written"]["cost"] - c["runs"][name]["cost"] for c in own)
            best = sum(c["runs"]["as written"]["cost"] - c["runs"]["oracle"]["cost"] for c in own)
            regret = f"{100 * (1 - gain / best):.0f} %" if best > 0 else "-"
            savings = f"{saved['seconds']:.1f} % | {saved['energy']:.1f} %"
            print(f"| {machine} | {len(own)} | {name} | {savings} | {passed:.2f} % | {regret} |")
    rows = [row for c in cases for row in c["decisions"]]
    acted = [row for row in rows if row["acts"]]
    sure = [row for row in acted if row["verdict"] == "faster"]
    print(f"\n{len(rows)} decisions of the planner, {len(acted)} of them to act.")
    for machine in names:
        own = [row for c in cases if c["machine"] == machine for row in c["decisions"]]
        own = [row for row in own if row["acts"] and row["verdict"] == "faster"]
        held = 100 * np.mean([row["low"] <= row["true"] <= row["high"] for row in own])
        print(f"90 % intervals of the gain on {machine} hold {held:.0f} % of {len(own)} decisions.")
    harmed = 100 * np.mean([row["true"] < 0 for row in sure])
    print(f"Acting to gain and harmed (true gain below 0): {harmed:.1f} % of {len(sure)}.")
    pace = np.median([c["seconds_per_decision"] for c in cases])
    print(f"Seconds per decision: {pace:.2f} (median, on a shared core).")
    worse = [c for c in cases if c["runs"]["planner"]["passed"] > c["runs"]["as written"]["passed"]]
    print(f"Programs in which the planner passed the limit more often than as written: {len(worse)} of {len(cases)}.")
    dearer = [c for c in cases if c["runs"]["planner"]["cost"] > c["runs"]["as written"]["cost"]]
    print(f"Programs that became dearer: {len(dearer)} of {len(cases)}.")
    nothing = [c for c in cases if c["runs"]["oracle"]["cost"] > 0.995 * c["runs"]["as written"]["cost"]]
    print(f"Programs in which doing nothing was already best (oracle gains < 0.5 %): {len(nothing)}.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?")
    parser.add_argument("--table")
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=110.0, help="of cutting in each program")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--out", default="control.jsonl")
    parser.add_argument("--summarise")
    options = parser.parse_args()
    if options.summarise:
        summarise(options.summarise)
        return
    import torch

    from crossfeed.ingest.table import Table

    torch.set_num_threads(1)
    opened = open_model(options.model, "cpu")
    table = Table.read(options.table)
    out, until = Path(options.out), time.monotonic() + 60.0 * options.minutes
    done = (
        {(row["machine"], row["number"]) for row in map(json.loads, out.read_text().splitlines())}
        if out.exists()
        else set()
    )
    for number in range(options.programs):
        for machine in options.machines.split(","):
            if (machine, number) in done or time.monotonic() > until:
                continue
            row = case(opened, machine, number, (table.sensors, table.commands), options.seconds)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                machine,
                number,
                row["kind"],
                {who: round(run["cost"], 1) for who, run in row["runs"].items()},
                flush=True,
            )


if __name__ == "__main__":
    main()
