"""What a line of NC text says, item by item."""

from typing import NamedTuple

from crossfeed.programs.expressions import Expression, Variable


class Word(NamedTuple):
    """An address with a value: X12.5, S1=2000, Z=IC(-3)."""

    address: str
    value: Expression
    mode: str = ""


class Assignment(NamedTuple):
    """A variable and its new value."""

    variable: Variable
    value: Expression


class Call(NamedTuple):
    """A named call such as CYCLE832(.02,1,1) or a bare subprogram name; arguments keep their text."""

    name: str
    arguments: tuple[str, ...] | None
    modal: bool = False


class Jump(NamedTuple):
    """GOTOF LABEL, taken when the condition holds."""

    keyword: str
    target: str
    condition: Expression | None


class Structure(NamedTuple):
    """A keyword of structured control flow with its condition or loop head."""

    keyword: str
    condition: Expression | None = None
    variable: Variable | None = None
    start: Expression | None = None


Item = Word | Assignment | Call | Jump | Structure


class ProgramLine(NamedTuple):
    """One line of the program, ready to be executed."""

    number: int
    text: str
    skippable: bool
    block: str
    label: str
    items: tuple[Item, ...]
    problem: str
