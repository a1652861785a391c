"""Off-policy estimates against the simulator's truth: coverage, ranking and refusals over many policies.

python benchmarks/control_offpolicy.py --policies 25 --runs 100 --truth 12 --machine spinner_630 --program 4 --seed 7
"""

import argparse

import numpy as np
from control_programs import random_program
from scipy.stats import spearmanr

from crossfeed.control.machine import Workpiece
from crossfeed.control.offpolicy import LinearPolicy, judge
from crossfeed.control.task import read_task
from crossfeed.control.timeline import Timeline
from crossfeed.control.trial import FEATURES, collect
from crossfeed.schema import canonical
from crossfeed.sim.physics.catalogue import machine_named


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", type=int, default=50)
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--truth", type=int, default=24)
    parser.add_argument("--stretch", type=int, default=12)
    parser.add_argument("--machine", default="spinner_620")
    parser.add_argument("--program", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0, help="of the log, the policies and the true runs")
    options = parser.parse_args()
    text = random_program(options.program, "roughing", 30.0)
    piece = Workpiece.of(text, f"part{options.program}", machine_named(options.machine))
    timeline = Timeline.of(piece.program, canonical(), 1.0, piece.motion_limits)
    task = read_task(None, {"objective": {"base_load": "1.4 kW"}})
    logged = LinearPolicy(1.0, np.zeros(len(FEATURES)), 0.04)
    log = collect(piece, timeline, task, logged, options.runs, options.stretch, options.seed)
    draw = np.random.default_rng(1 + options.seed)
    estimates, truths, errors = [], [], []
    for number in range(options.policies):
        shift, slope, spread = draw.uniform(-0.025, 0.025), draw.uniform(-0.1, 0.1), draw.uniform(0.03, 0.045)
        policy = LinearPolicy(1.0 + shift, np.array([slope, 0.0]), spread)
        true = collect(
            piece, timeline, task, policy, options.truth, options.stretch, 1000 * (1 + options.seed) + number, True
        )
        pairs = true.reward_NH.sum(axis=1).reshape(-1, 2).mean(axis=1)
        truths.append(float(pairs.mean()))
        errors.append(1.645 * float(pairs.std(ddof=1)) / len(pairs) ** 0.5)
        estimates.append(judge(log, policy))
    stretches = log.override_NH.shape[1]
    print(
        f"{options.policies} policies, {options.runs} logged runs of {stretches} stretches, {options.truth} true ones"
    )
    judged = [each for each in zip(estimates, truths, errors) if each[0].value is not None]
    print("\n| judged | refused | truth inside 90 % | rank correlation | mean error, s |")
    print("|---|---|---|---|---|")
    figures = "- | - | -"
    if len(judged) > 2:
        # The truth is itself a mean of runs; its own 90 % interval has to meet that of the estimate.
        inside = np.mean([value.low <= true + error and true - error <= value.high for value, true, error in judged])
        rank = spearmanr([value.value for value, *_ in judged], [true for _, true, _ in judged]).statistic
        error = np.mean([abs(value.value - true) for value, true, _ in judged])
        figures = f"{inside:.0%} | {rank:.2f} | {error:.2f}"
    print(f"| {len(judged)} | {len(estimates) - len(judged)} | {figures} |")
    print(f"\nTruths lie between {min(truths):.1f} and {max(truths):.1f} s.")


if __name__ == "__main__":
    main()
