"""Decisions judged by the simulator: what planners, policies, rules and an oracle save, and what they break.

Every finished (machine, program) is one line of the JSON-lines file, so a run can be stopped at any time and goes on.

    python benchmarks/control.py run/ --out planner.jsonl
    python benchmarks/control.py run/ --who first-part --out first.jsonl
    python benchmarks/control.py run/ --who others --policies ppo.safetensors --out others.jsonl
    python benchmarks/control.py --summarise planner.jsonl first.jsonl others.jsonl
"""

import argparse
import json
import time
from pathlib import Path

from control_case import MACHINES, case, first_part, others
from control_table import summarise

from crossfeed.control.policy import LearnedPolicy
from crossfeed.evaluation.opened_model import open_model

WHO = {"planner": case, "others": others, "first-part": first_part}


def order(first, programs, machines):
    """Every machine in turn, each with another program, so that a run that was stopped is balanced."""
    for turn in range(programs):
        for index, machine in enumerate(machines):
            yield first + (turn + index * (programs // len(machines))) % programs, machine


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?")
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--programs", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--seconds", type=float, default=40.0, help="of cutting in each program")
    parser.add_argument("--policies", default="", help="files made by crossfeed control learn")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--out", default="control.jsonl")
    parser.add_argument("--who", default="planner", choices=sorted(WHO), help="others: rules and policies")
    parser.add_argument("--summarise", nargs="+")
    options = parser.parse_args()
    if options.summarise:
        summarise(options.summarise)
        return
    import torch

    torch.set_num_threads(1)
    model = open_model(options.model, "cpu").model
    policies = {f"policy, {Path(file).stem}": LearnedPolicy.load(file) for file in options.policies.split(",") if file}
    out, until = Path(options.out), time.monotonic() + 60.0 * options.minutes
    rows = map(json.loads, out.read_text().splitlines()) if out.exists() else ()
    done = {(row["machine"], row["number"]) for row in rows}
    for number, machine in order(options.first, options.programs, options.machines.split(",")):
        if (machine, number) in done or time.monotonic() > until:
            continue
        row = WHO[options.who](model, machine, number, options.seconds, policies)
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        costs = {who: round(run["cost"], 1) for who, run in row["runs"].items()}
        print(machine, number, row["kind"], costs, flush=True)


if __name__ == "__main__":
    main()
