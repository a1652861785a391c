"""What a changed plan saves, as the simulator and as a model has it (see rollout.py)."""

import numpy as np

from crossfeed.model.world_model import WorldModel
from crossfeed.scenarios.history import read_history
from crossfeed.scenarios.measures import energies, power_sensors, sample_quantiles
from crossfeed.scenarios.plan import FOLLOWED, read_plans
from crossfeed.scenarios.rollout import PERSISTENCE, Rollout, shared_chance, standard_noise
from crossfeed.sim.counterfactual import ALTERATIONS, FACTUAL, counterfactual_tables
from crossfeed.sim.physics.catalogue import machine_named
from crossfeed.sim.physics.rollout import SimulatedMachine


def changed_plans(model: WorldModel, samples: int, ahead: int = 32) -> list[str]:
    """Energy that a changed plan saves or costs, as the simulator and as the model has it."""
    lines = [
        f"## Changed plans, network '{model.config.network}'",
        "",
        f"Jobs stopped at random moments and played on for {ahead} s as they were and under a changed plan. Energy",
        "with the change minus energy without, mean over the moments. Error: root mean square over the moments, of the",
        "forecast difference and of claiming none.",
        "",
        "| machine | change | moments | true | forecast | error | error of 'none' | 90 % covered |",
        "|---|---|---|---|---|---|---|---|",
    ]
    context, scale = model.config.context, model.normaliser.command_scale
    for machine in ("spinner_620", "spinner_630"):
        tables = counterfactual_tables(SimulatedMachine(machine_named(machine)), context, ahead, cases_per_job=3)

        def rolled(name: str, number: int, first: np.ndarray | None) -> tuple[np.ndarray, float, np.ndarray]:
            table = tables[name]  # noqa: B023
            history = read_history(table, model, table.groups[number].key, (context - 1) * table.period)
            (plan,) = read_plans([FOLLOWED], history)
            shared = None if first is None else shared_chance(first, plan.commands, scale)
            noise = standard_noise(samples, ahead, len(model.schema.sensors), 0, PERSISTENCE, shared)
            powers = power_sensors(model.schema, np.isfinite(history.sensors[-1]))
            assert plan.truth is not None
            said = energies(Rollout(model, history).sample(plan, noise), model.schema, powers, history.period)
            return said, float(energies(plan.truth, model.schema, powers, history.period)), plan.commands

        moments = range(len(tables[FACTUAL].groups))
        before = [rolled(FACTUAL, number, None) for number in moments]
        for name, (meaning, _) in ALTERATIONS.items():
            after = [rolled(name, number, before[number][2]) for number in moments]
            said = np.array([b[0] - a[0] for a, b in zip(before, after)])
            true = np.array([b[1] - a[1] for a, b in zip(before, after)])
            low, high = sample_quantiles(said.T, (0.05, 0.95))
            error, none = (np.sqrt(np.square(wrong).mean()) for wrong in (said.mean(1) - true, true))
            lines.append(
                f"| {machine} | {meaning} | {len(moments)} | {true.mean():+.1f} Wh | {said.mean():+.1f} Wh "
                f"| {error:.1f} Wh | {none:.1f} Wh | {((low <= true) & (true <= high)).mean():.0%} |"
            )
    return [*lines, ""]
