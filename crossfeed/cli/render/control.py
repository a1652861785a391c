"""An advice on a terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from crossfeed.cli.render.grid import grid
from crossfeed.control.offpolicy import PolicyValue
from crossfeed.grid import significant
from crossfeed.progress import output

_SHOWN = 24  # blocks


def show_advice(content: Mapping[str, Any], files: Sequence[Path]) -> None:
    """Print the verdict, the blocks that matter most, what was left alone and why."""
    console = output()
    console.print(f"[bold]{escape(content['program'])}[/]: {escape(content['verdict'])}")
    seconds, energy = content["seconds"], content["energy"]
    saved, gain = content["energy_saved"], content["gain"]
    console.print(
        f"time {seconds['as_written']:.0f} -> {seconds['planned']:.0f} s, energy {energy['as_written']:.1f} -> "
        f"{energy['planned']:.1f} Wh (saved {significant(saved['low'])} to {significant(saved['high'])}), "
        f"gain {significant(gain['low'])} to {significant(gain['high'])} s at 90 %"
    )
    stretches = content["stretches"]
    console.print(f"acts in {stretches['acted']} of {stretches['all']} stretches and leaves the others alone")
    console.print(basis_text(content["experience"]))
    if content["task"]["limits"] or content["task"]["tools"]:
        added, allowed = content["added_chance"], content["task"]["risk"]
        console.print(
            f"adds {100 * added:.1f} % to the chance that the program passes a limit (allowed: {100 * allowed:g} %)"
        )
    table = grid("", ["line", "tool", "s as written", "s", "feed", "saved Wh", "margin", "why"], words=2)
    table.columns[-1].justify = "left"
    blocks = sorted(content["blocks"], key=lambda row: -row["seconds_as_written"])[:_SHOWN]
    for row in sorted(blocks, key=lambda row: content["blocks"].index(row)):
        # Far below a limit's height nothing is told by how far: the loads to come are unknown.
        margin = "-" if row["margin"] is None else "none" if row["margin"] < -1.0 else f"{row['margin']:.0%}"
        table.add_row(
            str(row["line"]), escape(row["tool"]), f"{row['seconds_as_written']:.0f}", f"{row['seconds']:.1f}",
            f"{row['feed']:.0%}", significant(row["energy_saved"]), margin, escape(f"{row['verdict']}: {row['why']}"),
        )  # fmt: skip
    console.print(table)
    if len(content["blocks"]) > _SHOWN:
        console.print(f"the {_SHOWN} longest of {len(content['blocks'])} NC blocks; all of them are in blocks.csv")
    deadline = content["deadline"]
    if not deadline["met"]:
        console.print(f"[yellow]The given {deadline['within']:g} s cannot be met; this is the best found.[/]")
    if not content["search_finished"]:
        console.print("[yellow]The search ran out of time; this is the best found so far.[/]")
    if "rehearsal" in content:
        played = content["rehearsal"]
        before, after = played["as_written"], played["planned"]
        console.print(
            f"rehearsed on {played['machine']}: {before['seconds']:.0f} -> {after['seconds']:.0f} s, "
            f"{before['energy']:.0f} -> {after['energy']:.0f} Wh, "
            f"above a limit {before['passed']} -> {after['passed']} s; "
            f"right in {played['acted_rightly']} of {played['acted']} stretches acted in "
            f"and {played['left_rightly']} of {played['left_alone']} left alone"
        )
    for warning in content["warnings"]:
        console.print(f"[yellow]warning:[/] {escape(warning)}")
    for file in files:
        console.print(f"wrote {escape(str(file))}")


def basis_text(experience: Mapping[str, Any]) -> str:
    """Where the loads come from, and what the log can vouch for."""
    runs = experience["runs"]
    source = f"{runs} earlier run{'s' if runs > 1 else ''}" if experience["basis"] == "earlier run" else "the model"
    rows = min((margin["rows"] for margin in experience["margins"].values()), default=0)
    if any(margin["margin"] is None for margin in experience["margins"].values()):
        return f"loads come from {source}; only {rows} rows in the cut are known, too few to vouch for a limit"
    return f"loads come from {source}, margins below the limits from {rows} rows of the log"


def show_value(value: PolicyValue, logged: float) -> None:
    """Print what a policy would have earned beside what was earned as logged."""
    said = f"refused: {value.refused}"
    if value.value is not None:
        said = f"a run earns {value.value:.4g} ({value.low:.4g} to {value.high:.4g} at 90 %)"
    output().print(f"{said}; {value.effective:.1f} runs count, {value.clipped:.1%} of the weights were cut")
    output().print(f"as logged a run earned {logged:.4g}")
