"""Commands as a CSV file, one row per bin."""

from pathlib import Path

import numpy as np

from crossfeed.atomic import atomic_file
from crossfeed.programs.trajectory import CommandTrace

COLUMNS = "time,spindle_speed,feed_x,feed_y,feed_z,x,y,z,cutting,rapid,tool,line"


def write_commands(trace: CommandTrace, tools: tuple[str, ...], path: Path | str) -> None:
    """Write a trace; times in s, speeds in rpm, feeds in mm/min, positions in mm."""
    numbers = (trace.time, trace.spindle_speed, *trace.feed.T, *trace.position.T)
    rows = zip(*(np.round(values, 6).tolist() for values in numbers))
    marks = zip(trace.cutting.astype(int), trace.rapid.astype(int), trace.tool, trace.line)
    with atomic_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(COLUMNS + "\n")
        for row, (cutting, rapid, tool, line) in zip(rows, marks):
            values = ",".join(f"{value + 0.0:.10g}" for value in row)
            file.write(f'{values},{cutting},{rapid},"{tools[tool]}",{line}\n')
