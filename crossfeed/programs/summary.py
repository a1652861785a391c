"""The figures of a program at a glance: what it holds, how far and how long it goes, what stays unclear."""

from collections.abc import Mapping
from dataclasses import dataclass

from crossfeed.programs.blocks import Program, ProgramFinding
from crossfeed.programs.trajectory import Trajectory


@dataclass(frozen=True)
class Summary:
    """One program in numbers; lengths in mm, times in s, speeds in rpm, feeds in mm/min."""

    name: str
    lines: int
    blocks: int
    motion_lines: int
    understood_motion_lines: int
    understood: float
    path_length: float
    cutting_length: float
    rapid_length: float
    programmed_cutting_time: float
    cutting_time: float
    rapid_time: float
    total_time: float
    tools: tuple[str, ...]
    spindle_speeds: tuple[float, ...]
    feeds: tuple[float, ...]
    skipped_calls: Mapping[str, int]
    findings: tuple[ProgramFinding, ...]


def summarise(program: Program, trajectory: Trajectory) -> Summary:
    """Add up a program and its plan."""
    moves = program.moves
    cutting = [move for move in moves if move.feed is not None and move.spindle]
    return Summary(
        name=program.name,
        lines=program.lines,
        blocks=len(program.blocks),
        motion_lines=program.motion_lines,
        understood_motion_lines=program.understood_motion_lines,
        understood=program.understood,
        path_length=sum(move.length for move in moves),
        cutting_length=sum(move.length for move in cutting),
        rapid_length=sum(move.length for move in moves if move.feed is None),
        programmed_cutting_time=program.programmed_cutting_time,
        cutting_time=trajectory.cutting_time,
        rapid_time=trajectory.rapid_time,
        total_time=trajectory.duration,
        tools=tuple(tool for tool in trajectory.tools if tool),
        spindle_speeds=tuple(sorted({abs(block.spindle) for block in cutting})),
        feeds=tuple(sorted({round(move.feed, 3) for move in moves if move.feed is not None})),
        skipped_calls=program.skipped_calls,
        findings=tuple(sorted((*program.findings, *trajectory.remarks), key=lambda finding: finding.line)),
    )
