"""The side panels of the figure: energy of each plan, and the difference that a change of plan makes."""

from collections.abc import Mapping, Sequence
from typing import Any

from crossfeed.grid import significant
from crossfeed.serving.measures import ENERGY_UNIT
from crossfeed.serving.result import PlanComparison, PlanEnergy, WhatIfResult


def draw_energy(axes: Any, answer: WhatIfResult, colours: Sequence[str]) -> None:
    """One bar per plan with its 90 % interval; a diamond where the true energy is known."""
    energies = [(plan.energy, colour) for plan, colour in zip(answer.plans.values(), colours)]
    for row, (energy, colour) in enumerate(energies):
        if energy is None:
            continue
        axes.barh(row, energy.mean, height=0.5, color=colour, alpha=0.35, linewidth=0)
        _interval(axes, row, energy, colour)
        _label(axes, row, f"{significant(energy.mean)} ({significant(energy.low)} to {significant(energy.high)})")
        if energy.truth is not None:
            axes.plot(energy.truth, row, "D", color="#000000", markersize=4)
    axes.axvline(0.0, color="#888888", linewidth=0.8)
    _bare(axes, len(energies), f"Energy in {ENERGY_UNIT}, 90 %")


def draw_differences(axes: Any, answer: WhatIfResult, colours: Mapping[str, str]) -> None:
    """Each later plan against the first."""
    comparisons = answer.comparisons
    for row, comparison in enumerate(comparisons):
        _interval(axes, row, comparison, colours[comparison.second])
        chance = comparison.probability_less
        _label(axes, row, f"{significant(comparison.mean, '+')} (less in {chance:.0%} of the futures)")
    axes.axvline(0.0, color="#888888", linewidth=0.8)
    _bare(axes, len(comparisons), f"Difference to the first in {ENERGY_UNIT}")


def _interval(axes: Any, row: int, estimate: PlanEnergy | PlanComparison, colour: str) -> None:
    axes.plot([estimate.low, estimate.high], [row, row], color=colour, linewidth=2.2, solid_capstyle="round")
    axes.plot(estimate.mean, row, "o", color=colour, markersize=5)


def _label(axes: Any, row: int, text: str) -> None:
    axes.annotate(
        text, (0.0, row - 0.36), xycoords=("axes fraction", "data"), xytext=(2, 0), textcoords="offset points",
        va="bottom", fontsize=7.5,
    )  # fmt: skip


def _bare(axes: Any, rows: int, title: str) -> None:
    axes.set_title(title, fontsize=8.5, loc="left")
    axes.set_ylim(rows - 0.4, -0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    axes.tick_params(labelsize=7.5)
    axes.margins(x=0.08)
