"""The pair of the study: a THWS-like and a JOANNEUM-like log in one folder, at a named size."""

from dataclasses import dataclass
from pathlib import Path

from crossfeed.errors import MachineError
from crossfeed.machines.simulated import joanneum, thws
from crossfeed.machines.simulated.log_files import LogSummary
from crossfeed.machines.simulated.plot_sheet import SHEET, pair_sheet
from crossfeed.machines.simulated.production import Order


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the two logs are."""

    thws: Order
    cycles: int  # of the JOANNEUM runs


SCALES = {
    # Five minutes for each target run: a fifth of it holds complete windows to adapt to.
    "demo": Scale(Order(rows=5_000, sessions=14, raw_rows=8_600, duplicates=12, lost_rows=3), cycles=1_050_000),
    # The sizes of the real logs.
    "full": Scale(Order(rows=29_785, sessions=62, raw_rows=52_026, duplicates=60, lost_rows=8), cycles=1_503_915),
}


def simulate_pair(
    out: Path, scale: str | Scale = "demo", seed: int = 0, measured_commands: bool = False, plots: bool = False,
    cycles: int | None = None,
) -> tuple[LogSummary, LogSummary]:  # fmt: skip
    """Write OUT/thws and OUT/joanneum, and OUT/sheet.png with plots; the same seed gives the same bytes.

    `cycles` is another length of the JOANNEUM log than the scale's.
    """
    if isinstance(scale, str):
        if scale not in SCALES:
            raise MachineError(f"There is no scale '{scale}'.", expected=f"one of {', '.join(SCALES)}")
        scale = SCALES[scale]
    if seed < 0:
        raise MachineError(f"The seed {seed} cannot be used.", expected="a whole number from 0 up")
    length = scale.cycles if cycles is None else cycles
    joanneum.session_cycles(length)  # refuses a length before the first log is written
    source = thws.export(out / "thws", scale.thws, seed, measured_commands)
    target = joanneum.export(out / "joanneum", length, seed, measured_commands)
    if plots:
        pair_sheet(out / SHEET, seed)
    return source, target
