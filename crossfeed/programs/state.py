"""The modal state of the controller while a program runs, and the log of what it does and what stays unclear."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crossfeed.programs.blocks import Block, ProgramFinding, Setup, Severity, Vector
from crossfeed.programs.expressions import Value
from crossfeed.programs.geometry import Frame, Plane, table_turn
from crossfeed.programs.line_items import ProgramLine

if TYPE_CHECKING:
    from crossfeed.programs.cycles import Cycle


@dataclass
class InterpreterState:
    """Everything an NC line may rely on without saying it."""

    position: Vector  # linear axes, mm from the work zero
    motion: str = ""
    plane: Plane = (0, 1, 2)
    incremental: bool = False
    feed_mode: str = "per minute"
    exact_stop: bool = False
    smoothing: bool = False  # CYCLE832 switches to continuous-path mode until CYCLE832() ends it
    length_unit: float = 1.0
    feed_unit: float = 1.0
    feed: float | None = None
    speed: float | None = None
    direction: float = 0.0
    tool: str = ""
    next_tool: str | None = None
    rotary: Vector = (0.0, 0.0, 0.0)
    frame: Frame = field(default_factory=Frame)
    tool_center_control: bool = False
    work_offset_code: str = ""
    cycle: "Cycle | None" = None
    retract_to_initial: bool = True  # G98
    variables: dict[str, Value] = field(default_factory=dict)

    @property
    def spindle(self) -> float:
        """The signed spindle set-point in rpm, 0 when stopped."""
        return self.direction * (self.speed or 0.0)

    def axes_frame(self) -> Frame:
        """From programmed coordinates to the linear axes, as things stand."""
        return self.frame.on_table(table_turn(self.rotary)) if self.tool_center_control else self.frame


@dataclass
class Log:
    """What comes out of a run: blocks, findings, and which lines were motion."""

    setup: Setup
    blocks: list[Block] = field(default_factory=list)
    findings: dict[tuple[int, str], ProgramFinding] = field(default_factory=dict)
    motion: set[int] = field(default_factory=set)
    unclear_motion: set[int] = field(default_factory=set)
    calls: Counter[str] = field(default_factory=Counter)
    reported_once: set[str] = field(default_factory=set)

    def report(self, line: ProgramLine, reason: str, severity: Severity = "warning", once: str = "") -> None:
        """List a finding, one per line and reason, or one per program where `once` names the matter."""
        if once:
            if once in self.reported_once:
                return
            self.reported_once.add(once)
        finding = ProgramFinding(line.number, line.text.strip()[:80], reason, severity)
        self.findings.setdefault((line.number, reason), finding)
