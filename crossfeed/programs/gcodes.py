"""The vocabulary of G codes and Siemens keywords, and the ISO drilling cycles G73, G81, G82 and G83."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from crossfeed.configuration import CheckedForm, load_yaml
from crossfeed.errors import ProgramError
from crossfeed.programs.blocks import Dwell
from crossfeed.programs.expressions import UnclearError
from crossfeed.programs.flow import InterpreterState, Log
from crossfeed.programs.motion import Values, move
from crossfeed.programs.read_line import ProgramLine

# G codes that set one modal value: code -> (field of the state, value).
MODAL: dict[str, tuple[str, object]] = {
    "G0": ("motion", "rapid"),
    "G1": ("motion", "linear"),
    "G2": ("motion", "clockwise"),
    "G3": ("motion", "counterclockwise"),
    "G17": ("plane", (0, 1, 2)),
    "G18": ("plane", (2, 0, 1)),
    "G19": ("plane", (1, 2, 0)),
    "G90": ("incremental", False),
    "G91": ("incremental", True),
    "G94": ("feed_mode", "per minute"),
    "G95": ("feed_mode", "per revolution"),
    "G93": ("feed_mode", "inverse time"),
    "G60": ("exact_stop", True),
    "G61": ("exact_stop", True),
    "G64": ("exact_stop", False),
    **{f"G64{digit}": ("exact_stop", False) for digit in range(1, 6)},
}
# Units: code -> (mm per length unit, mm per feed unit; None keeps the feed unit).
UNITS: dict[str, tuple[float, float | None]] = {
    "G70": (25.4, None),
    "G71": (1.0, None),
    "G700": (25.4, 25.4),
    "G710": (1.0, 1.0),
    "G20": (25.4, 25.4),
    "G21": (1.0, 1.0),
}
WORK_OFFSETS = frozenset(
    ["G54", "G55", "G56", "G57", "G58", "G59", "G500", "G54.1", *(f"G{number}" for number in range(505, 600))]
)
MACHINE_COORDINATES = frozenset(("G53", "G153", "SUPA"))


class _Codes(CheckedForm):
    """What `codes.yaml` holds: meanings, each with the codes or words that have it."""

    straightened: dict[str, tuple[str, ...]]
    not_applied: dict[str, tuple[str, ...]]
    other_meaning: dict[str, tuple[str, ...]]
    words_not_applied: dict[str, tuple[str, ...]]
    quiet: dict[Literal["codes", "keywords"], frozenset[str]]


def _by_code(meanings: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {code: meaning for meaning, codes in meanings.items() for code in codes}


_CODES = _Codes.model_validate(load_yaml(Path(__file__).with_name("codes.yaml"), "The list of NC codes", ProgramError))
STRAIGHTENED = _by_code(_CODES.straightened)
NOT_APPLIED = _by_code(_CODES.not_applied)
OTHER_MEANING = _by_code(_CODES.other_meaning)
WORDS_NOT_APPLIED = _by_code(_CODES.words_not_applied)
DRILLING_CYCLES = frozenset(("G73", "G81", "G82", "G83"))
# Codes that need no remark of their own: quiet ones, and those followed where they act.
KNOWN = _CODES.quiet["codes"] | OTHER_MEANING.keys() | MACHINE_COORDINATES | {"G4", "G9", "G28", "G30", "G65"}
FRAME_KEYWORDS = frozenset(("TRANS", "ATRANS", "ROT", "AROT", "SCALE", "ASCALE", "MIRROR", "AMIRROR"))
KEYWORDS = (
    _CODES.quiet["keywords"]
    | FRAME_KEYWORDS
    | {name for name in STRAIGHTENED if not name.startswith("G")}
    | {"SUPA", "TRAORI", "TRAFOOF", "RET", "TO"}
)
SPINDLE_CODES = {"M3": 1.0, "M4": -1.0}
PROGRAM_ENDS = frozenset(("M2", "M30", "M17", "M99"))


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
    """One hole for a line that names a position: go there, drill to Z and retract."""
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
