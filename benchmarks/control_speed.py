"""How long a decision takes on one core: planner with an earlier run or the model, policy, vector environment.

python benchmarks/control_speed.py --size base
"""

import argparse
import time

import numpy as np
import torch
from control_case import OTHER, machine_of, played
from control_receding import Moment, Planner, PolicyController

from crossfeed.control.earlier_runs import LoggedRows
from crossfeed.control.environments import ModelVectorEnvironment
from crossfeed.control.load_forecast import CuttingLaw
from crossfeed.control.policy import LearnedPolicy
from crossfeed.control.task import read_task
from crossfeed.logs.table import Group, Table
from crossfeed.model.presets import crossfeed
from crossfeed.model.world_model import WorldModel
from crossfeed.schema import canonical
from crossfeed.windows.normalise import Normaliser
from crossfeed.windows.split import split_table

SESSIONS = 8


def log_of(machine):
    """Some programs as written, each a session of a table."""
    runs = [played(OTHER + number, "roughing", machine, number, 30.0).rows for number in range(SESSIONS)]
    ends = np.cumsum([len(rows) for rows in runs])
    starts = [0, *ends[:-1]]
    groups = tuple(Group("mill", f"s{n}", f"p{n}", "", int(a), int(b)) for n, (a, b) in enumerate(zip(starts, ends)))
    time_R = np.concatenate([np.arange(float(len(rows))) for rows in runs])
    sensors, commands = (np.concatenate([getattr(r, part) for r in runs]) for part in ("sensors_RC", "commands_RA"))
    return Table(canonical(), groups, time_R, sensors, commands, 1.0, {"origin": "benchmark"})


def pace(act, times):
    """Median and slowest seconds of a call."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken)), max(taken)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", default="base")
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    machine, schema = machine_of("spinner_620"), canonical()
    table, mine = log_of(machine), played(0, "roughing", machine, 100, 30.0)
    config = crossfeed(options.size).model
    # Speed does not depend on what the weights are.
    model = WorldModel.build(config, schema, Normaliser.fit(split_table(table).train_rows(table))).eval()
    task = read_task(None, {"limits": ["spindle_torque<=4"], "objective": {"base_load": "1.4 kW"}})
    law = CuttingLaw.from_logs(schema, table.sensors, table.commands)
    before = LoggedRows(table.sensors[-200:], table.commands[-200:], "another")
    moment = Moment(12.0, (1.0, 1.0), mine.rows.sensors_RC[:52], mine.rows.commands_RA[:52])
    rows = []
    for title, log in (("planner, earlier run", (before, mine.rows)), ("planner, model", (before,))):
        planner = Planner(model, law, log)
        planner.start(mine.timeline, task)
        planner.decide(moment)
        rows.append((title, *pace(lambda each=planner: each.decide(moment), options.times)))
    width, draw = 32, np.random.default_rng(0)
    sizes = ((width, 9), (width, width), (1, width))
    layers = tuple((0.1 * draw.standard_normal(shape), np.zeros(shape[0])) for shape in sizes)
    policy = PolicyController(LearnedPolicy(layers, task, {}))
    policy.start(mine.timeline, task)
    rows.append(("policy", *pace(lambda: policy.act(moment), 100 * options.times)))
    print(f"{options.size}: {sum(p.numel() for p in model.parameters()):,} weights, one thread\n")
    print("| decision | median, ms | slowest, ms |\n|---|---|---|")
    for title, median, slowest in rows:
        print(f"| {title} | {1000 * median:.2f} | {1000 * slowest:.2f} |")
    many = ModelVectorEnvironment(model, table, 256, task, branches=32)
    many.reset(seed=0)
    action = np.zeros((256, 1))
    median, _ = pace(lambda: many.step(action), 200)
    print(f"\nvector environment: {256 / median:,.0f} steps a second (256 branches)")


if __name__ == "__main__":
    main()
