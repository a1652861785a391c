"""A training run on a terminal: the model beside its floors, and what else to know."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from crossfeed.cli.render.grid import grid, number
from crossfeed.progress import output
from crossfeed.training.measure.floors import FLOORS
from crossfeed.training.measure.health import COLLAPSED


def show_training(summary: dict[str, Any], model: Path) -> None:
    """Print the headline of a run and where its model lies."""
    console = output()
    console.print(_headline(summary["validation"]))
    for line in (*remarks(summary), _answer(summary["validation"]), f"model: {model}"):
        console.print(line, markup=False, soft_wrap=True)


def _headline(validation: dict[str, Any]) -> Table:
    """The model and its floors on source validation."""
    shown = {"crossfeed": validation["model"], **{name: validation[name] for name in (*FLOORS, "shuffled commands")}}
    horizons = validation["model"]["rmse_by_horizon"]
    rows = {"RMSE": "rmse", "MAE": "mae", **{f"RMSE, {horizon} ahead": horizon for horizon in horizons}}
    rows |= {"NLL": "nll", "CRPS": "crps", "coverage of 90 %": "coverage90"}
    cells = (
        [title, *(scores["rmse_by_horizon"][key] if key in horizons else scores[key] for scores in shown.values())]
        for title, key in rows.items()
    )
    return grid(f"Source validation, {validation['windows']} windows, z-space", ["", *shown], cells)


def _answer(validation: dict[str, Any]) -> str:
    """What was reached, in a sentence."""
    own, last = validation["model"]["rmse"], validation["persistence"]["rmse"]
    told = f"On sessions held out its RMSE is {number(own)}; repeating the last value has {number(last)}"
    return f"{told}. Its 90 % intervals hold {100 * validation['model']['coverage90']:.0f} % of what happened."


def remarks(summary: dict[str, Any]) -> Iterator[str]:
    """What else to know about the run, one remark a line."""
    for stage, facts in summary["stages"].items():
        line = f"{stage}: epoch {facts['best_epoch'] + 1} of {facts['epochs']} kept, score {facts['score']:.4g}, "
        if facts["target_rank"] is not None:
            line += f"rank of context {facts['context_rank']:.0%}, target {facts['target_rank']:.0%}, "
            line += f"predicted {facts['predicted_rank']:.0%}, ridge probe R2 {facts['probe_r2']:.3f}, "
        yield f"{line}{facts['seconds']:.0f} s"
        if facts["collapse"]:
            yield f"{stage}: latents collapsed ({facts['collapse']})"
    if any(facts["collapse"] for facts in summary["stages"].values()):
        yield COLLAPSED
    validation = summary["validation"]
    for machine, scores in validation["by_machine"].items():
        yield f"{machine}: RMSE {scores['rmse']:.3f} on {scores['windows']} validation windows"
    weak = ", below 1.02: the model hardly uses the commands" if validation["weak_command_use"] else ""
    yield f"shuffled commands cost a factor of {validation['shuffled_command_ratio']:.3f} in RMSE{weak}"
