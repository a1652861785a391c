"""What the control remembers while a program runs, and which line comes next: jumps and loops, none of them endless."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crossfeed.errors import ProgramError
from crossfeed.programs.blocks import Block, ProgramFinding, Setup, Severity, Vector
from crossfeed.programs.expressions import Operation, UnclearError, Value, evaluate, evaluate_number, variable_name
from crossfeed.programs.legs import Frame, Plane, table_turn
from crossfeed.programs.read_line import Item, Jump, ProgramLine, Structure

if TYPE_CHECKING:
    from crossfeed.programs.gcodes import Cycle


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


_CLOSES = {"ENDIF": "IF", "ELSE": "IF", "ENDWHILE": "WHILE", "ENDFOR": "FOR", "ENDLOOP": "LOOP", "UNTIL": "REPEAT"}


class Flow:
    """Hands out the lines of a program in the order of execution."""

    def __init__(self, lines: Sequence[ProgramLine], name: str, repeated_lines_limit: int) -> None:
        self.lines, self.name = lines, name
        self.line_index = 0
        self.executed = 0
        self.limit = len(lines) + repeated_lines_limit
        self.seen: set[tuple[int, int]] = set()
        self.labels: dict[str, list[int]] = {}
        for index, line in enumerate(lines):
            for label in (line.label, f"N{line.block}" if line.block else ""):
                if label:
                    self.labels.setdefault(label, []).append(index)
        self.partner = self._match_structures()

    def next_line(self) -> ProgramLine | None:
        """The next line, or None after the last one."""
        if self.line_index >= len(self.lines):
            return None
        line = self.lines[self.line_index]
        self.line_index += 1
        self.executed += 1
        if self.executed > self.limit:
            raise self._endless(line, f"after {self.executed} executed lines there is no end in sight")
        return line

    def _go(self, target: int, line: ProgramLine, state: InterpreterState) -> None:
        """Continue at a line; going back with every variable as it was the time before can never end."""
        if target < self.line_index:
            situation = (self.line_index, hash(frozenset(state.variables.items())))
            if situation in self.seen:
                raise self._endless(line, "nothing has changed since it came by here the last time")
            self.seen.add(situation)
        self.line_index = target

    def _endless(self, line: ProgramLine, reason: str) -> ProgramError:
        return ProgramError(
            f"{self.name}, line {line.number}: the program goes round in an endless loop; {reason}.",
            expected="a loop whose exit condition becomes true",
            remedy="Correct the jump or the loop around this line; cut an endless production loop down to one part.",
        )

    def follow(self, line: ProgramLine, state: InterpreterState) -> list[Item]:
        """Take the jumps and loops of this line and return its other items."""
        rest: list[Item] = []
        for item in line.items:
            if isinstance(item, Jump):
                if item.condition is None or self._holds(item, line, state):
                    self._go(self._destination(item, line), line, state)
            elif isinstance(item, Structure):
                self._structure(item, line, state)
            else:
                rest.append(item)
        return rest

    def _holds(self, item: Jump | Structure, line: ProgramLine, state: InterpreterState) -> bool:
        """The truth of a condition; one that cannot be evaluated leaves no honest way to go on."""
        assert item.condition is not None
        try:
            return bool(evaluate(item.condition, state.variables))
        except UnclearError as unclear:
            raise ProgramError(
                f"{self.name}, line {line.number}: the condition cannot be evaluated: {unclear}.",
                expected="a condition over variables that have a value",
                remedy="Give the variable a value at the top of the program.",
            ) from unclear

    def _destination(self, jump: Jump, line: ProgramLine) -> int:
        here = self.line_index - 1
        target = jump.target if not jump.target.isdigit() else f"N{jump.target}"
        if jump.keyword == "GOTOS":
            return 0
        lines = self.labels.get(target, [])
        ahead, behind = [line for line in lines if line > here], [line for line in lines if line <= here]
        if jump.keyword == "GOTOB":
            ahead = []
        if jump.keyword == "GOTOF":
            behind = []
        if ahead or behind:
            return ahead[0] if ahead else behind[-1]
        if jump.keyword == "GOTOC":
            return self.line_index
        raise ProgramError(
            f"{self.name}, line {line.number}: {jump.keyword} {jump.target} leads nowhere.",
            expected=f"a line with the label {jump.target} {'ahead' if jump.keyword == 'GOTOF' else 'in the program'}",
            remedy="Correct the label or the direction of the jump.",
        )

    def _match_structures(self) -> dict[int, dict[str, int]]:
        """For each line of a control structure, where its other lines are."""
        partner: dict[int, dict[str, int]] = {}
        opened: list[tuple[str, int]] = []
        for index, line in enumerate(self.lines):
            for item in line.items:
                if not isinstance(item, Structure):
                    continue
                if item.keyword not in _CLOSES:
                    opened.append((item.keyword, index))
                    partner[index] = {item.keyword: index}
                    continue
                if not opened or opened[-1][0] != _CLOSES[item.keyword]:
                    raise self._unmatched(line, item.keyword)
                group = partner[opened[-1][1]]
                group[item.keyword] = index
                partner[index] = group
                if item.keyword != "ELSE":
                    opened.pop()
        if opened:
            raise self._unmatched(self.lines[opened[-1][1]], opened[-1][0])
        return partner

    def _unmatched(self, line: ProgramLine, keyword: str) -> ProgramError:
        return ProgramError(
            f"{self.name}, line {line.number}: {keyword} has no counterpart.",
            expected="IF ... ELSE ... ENDIF, WHILE ... ENDWHILE, FOR ... ENDFOR, LOOP ... ENDLOOP, REPEAT ... UNTIL",
            remedy="Close the structure, or open it on a line of its own.",
        )

    def _structure(self, item: Structure, line: ProgramLine, state: InterpreterState) -> None:
        here = self.line_index - 1
        group = self.partner[here]
        if item.keyword == "IF" and not self._holds(item, line, state):
            self.line_index = group.get("ELSE", group["ENDIF"]) + 1
        elif item.keyword == "ELSE":
            self.line_index = group["ENDIF"] + 1
        elif item.keyword == "WHILE" and not self._holds(item, line, state):
            self.line_index = group["ENDWHILE"] + 1
        elif item.keyword in ("ENDWHILE", "ENDLOOP"):
            self._go(group[_CLOSES[item.keyword]], line, state)
        elif item.keyword == "UNTIL" and not self._holds(item, line, state):
            self._go(group["REPEAT"], line, state)
        elif item.keyword in ("FOR", "ENDFOR"):
            self._count_loop(group, line, state, first=item.keyword == "FOR")

    def _count_loop(self, group: dict[str, int], line: ProgramLine, state: InterpreterState, first: bool) -> None:
        head = next(item for item in self.lines[group["FOR"]].items if isinstance(item, Structure))
        assert head.variable is not None
        assert head.start is not None
        assert head.condition is not None
        try:
            key = variable_name(head.variable, state.variables)
            value = evaluate_number(head.start if first else Operation("+", (head.variable, 1.0)), state.variables)
            state.variables[key] = value
            last = evaluate_number(head.condition, state.variables)
        except UnclearError as unclear:
            raise ProgramError(
                f"{self.name}, line {line.number}: the FOR loop cannot be counted: {unclear}.",
                expected="FOR with a number to start from and a number to end with",
            ) from unclear
        if value > last:
            self.line_index = group["ENDFOR"] + 1
        elif not first:
            self._go(group["FOR"] + 1, line, state)
