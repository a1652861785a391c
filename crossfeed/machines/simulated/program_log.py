"""A user's NC file on one machine: a log, its mapping, and a sheet of plots."""

from dataclasses import replace
from pathlib import Path

from crossfeed.errors import MachineError
from crossfeed.machines.simulated.catalogue import machine_named
from crossfeed.machines.simulated.jobs import Job, motion_limits, prepare
from crossfeed.machines.simulated.log_files import LogSummary
from crossfeed.machines.simulated.mapped_log import LoggedRun, write_mapped
from crossfeed.machines.simulated.materials_and_tools import material_for, material_noted, tool_notes
from crossfeed.machines.simulated.plot_sheet import SHEET, draw_sheet, play_once
from crossfeed.machines.simulated.rollout import SimulatedMachine
from crossfeed.programs.blocks import Program
from crossfeed.programs.bundled import program_path
from crossfeed.programs.parse import read_program

_SHOWN = 5  # findings of the parser that are repeated here


def simulate_program(
    out: Path,
    file: str,
    machine_name: str = "spinner_620",
    material: str | None = None,
    seed: int = 0,
    stock_top: float = 0.0,
) -> LogSummary:
    """Run an NC file (or bundled:NAME) once and write OUT/log.csv, OUT/mapping.yaml and OUT/sheet.png."""
    machine, path = machine_named(machine_name), program_path(file)
    program = read_program(path)
    text = path.read_text(encoding="utf-8", errors="replace")
    job = prepare(program, motion_limits(machine), tool_notes(text), stock_top)
    chosen = material_for(text, material)
    simulated = SimulatedMachine(machine, min(0.02, machine.logging.period))
    if not round(job.seconds / simulated.time_step):
        raise MachineError(f"{path.name} takes no time at all.", expected="a program that moves or dwells")
    played = play_once(f"{program.name} on {machine.name}, {chosen.name}", simulated, job, chosen, seed)
    written = write_mapped(out, machine, [LoggedRun(program.name, played.trace)], min_rows=1)
    draw_sheet(out / SHEET, [played])
    remarks = _remarks(program, job, stock_top)
    if material is None and material_noted(text) is None:
        remarks.insert(0, "the material is not named in the program: aluminium is assumed (--material)")
    return replace(written, files=(*written.files, out / SHEET), remarks=tuple(remarks))


def _remarks(program: Program, job: Job, stock_top: float) -> list[str]:
    """What the user should know: unclear lines, assumed tools, a path that never meets the stock."""
    remarks = [*job.remarks]
    if job.cutting.any() and not (job.engagement.depth > 0).any():
        lowest = float(job.position[job.cutting, 2].min())
        remarks.append(
            f"nothing is cut: the stock top is z = {stock_top:g} mm and the lowest feed move is at z = {lowest:g} mm "
            "(--stock-top)"
        )
    unclear = [finding for finding in program.findings if finding.severity != "note"]
    remarks += [f"line {finding.line}: {finding.text.strip()}: {finding.reason}" for finding in unclear[:_SHOWN]]
    if len(unclear) > _SHOWN:
        remarks.append(f"{len(unclear) - _SHOWN} more findings: crossfeed program {program.name}")
    return remarks
