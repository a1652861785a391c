"""ISO drilling cycles G73, G81, G82 and G83: each line that names a position drills a hole there."""

from dataclasses import dataclass, field

from crossfeed.programs.blocks import Dwell
from crossfeed.programs.line_items import ProgramLine
from crossfeed.programs.motion import Values, move
from crossfeed.programs.state import InterpreterState, Log
from crossfeed.programs.tokens import UnclearError

# mm between the last depth and the return to feed when a peck goes on, and the lift that breaks a chip (G73).
_PECK_CLEARANCE = 0.5
_MOST_PECKS = 1000


@dataclass
class Cycle:
    """The modal drilling cycle: its code, the words it was given (Z, R, P, Q), and the height before the first hole."""

    code: str
    initial: float
    words: dict[str, float] = field(default_factory=dict)


def select_cycle(code: str, state: InterpreterState) -> None:
    """Switch a drilling cycle on or off, or choose the plane to retract to."""
    if code == "G80":
        state.cycle = None
    elif code in ("G98", "G99"):
        state.retract_to_initial = code == "G98"
    else:
        state.cycle = Cycle(code, state.axes_frame().to_programmed(state.position)[2] / state.length_unit)


def drill(line: ProgramLine, words: Values, state: InterpreterState, log: Log) -> None:
    """Go to the position, drill to Z and retract."""
    cycle = state.cycle
    assert cycle is not None
    if state.incremental or state.plane != (0, 1, 2):
        raise UnclearError(f"{cycle.code} is supported with G90 and G17 only")
    cycle.words |= {address: words[address][0] for address in "ZRPQ" if address in words}
    if not {"Z", "R"} <= cycle.words.keys() or cycle.words["R"] < cycle.words["Z"]:
        raise UnclearError(f"{cycle.code} needs a depth Z and, above it, a height R")
    clearance, depth = cycle.words["R"], cycle.words["Z"]
    target = {address: words[address] for address in "XY" if address in words}
    before = state.motion

    def go(kind: str, target: Values) -> None:
        state.motion = kind
        move(line, target, state, log, machine_coordinates=False, stop=kind == "linear")

    if target:
        go("rapid", target)
    go("rapid", {"Z": (clearance, "AC")})
    for bottom in _pecks(cycle, clearance, depth):
        go("linear", {"Z": (bottom, "AC")})
        if bottom > depth:
            lift = clearance if cycle.code == "G83" else bottom + _PECK_CLEARANCE
            go("rapid", {"Z": (lift, "AC")})
            go("rapid", {"Z": (min(bottom + _PECK_CLEARANCE, lift), "AC")})
    if cycle.code == "G82" and cycle.words.get("P"):
        seconds = cycle.words["P"] / 1000.0
        log.blocks.append(Dwell(line.number, seconds, state.position, state.spindle, state.tool))
    go("rapid", {"Z": (max(cycle.initial, clearance) if state.retract_to_initial else clearance, "AC")})
    state.motion = before


def _pecks(cycle: Cycle, clearance: float, depth: float) -> list[float]:
    """The depths at which the drill turns round, the last one being the full depth."""
    step = cycle.words.get("Q", 0.0)
    if cycle.code not in ("G73", "G83"):
        return [depth]
    if step <= 0 or (clearance - depth) / step > _MOST_PECKS:
        raise UnclearError(f"{cycle.code} needs a peck Q above zero")
    depths: list[float] = []
    while clearance - step * (len(depths) + 1) > depth:
        depths.append(clearance - step * (len(depths) + 1))
    return [*depths, depth]
