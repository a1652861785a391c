"""One line of NC text becomes a list of items: words, assignments, definitions, calls, keywords, jumps."""

import re
from typing import NamedTuple

from crossfeed.programs.expressions import Expression, ExpressionReader, Token, UnclearError, Variable, tokenise


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


_PLAIN_WORD = re.compile(r"([A-Z])\s*([-+]?(?:\d+\.?\d*|\.\d+))")
# Possessive throughout: a line that is not plain must be given up at once, not after trying every split of its digits.
_PLAIN_LINE = re.compile(r"(?:\s*+[A-Z]\s*+[-+]?+(?>\d++\.?+\d*+|\.\d++))*+\s*+")
_NUMBERING = re.compile(r"\s*(/\d?)?\s*(?:[N:]\s*(\d+)(?!\s*[\d.=]))?\s*(/\d?)?\s*", re.IGNORECASE)
# Addresses of more than one letter that take a value; every other `NAME=` sets a variable.
VALUE_NAMES = frozenset(
    {"CR", "TURN", "AR", "AP", "RP", "ANG", "RPL", "RND", "RNDM", "CHF", "CHR", "FRC", "FRCM", "FB"}
    | {"SPOS", "SPOSA", "ADIS", "ADISPOS", "OVR", "LIMS", "SCC"}
)
COORDINATE_MODES = frozenset(("AC", "IC", "DC", "ACP", "ACN"))
TYPES = frozenset(("REAL", "INT", "BOOL", "CHAR", "STRING", "AXIS", "FRAME"))
JUMPS = frozenset(("GOTO", "GOTOF", "GOTOB", "GOTOC", "GOTOS"))
STRUCTURES = frozenset(
    {"IF", "ELSE", "ENDIF", "WHILE", "ENDWHILE", "FOR", "ENDFOR", "LOOP", "ENDLOOP", "REPEAT", "UNTIL"}
    | {"CASE", "REPEATB"}
)


def read_line(text: str, number_in_file: int, keywords: frozenset[str]) -> ProgramLine:
    """Read one line; what cannot be read is said in `problem`, and the line then has no items."""
    head = _NUMBERING.match(text)
    assert head is not None
    skippable, block = bool(head[1] or head[3]), (head[2] or "").lstrip("0")
    rest = text[head.end() :].upper() if '"' not in text else _upper_outside_strings(text[head.end() :])
    if _PLAIN_LINE.fullmatch(rest):
        words = [(letter, float(value)) for letter, value in _PLAIN_WORD.findall(rest)]
        if all(abs(value) < 1e12 for _, value in words):
            return ProgramLine(number_in_file, text, skippable, block, "", tuple(Word(*word) for word in words), "")
    label, problem = "", ""
    items: tuple[Item, ...] = ()
    try:
        reader = ExpressionReader(tokenise(rest, keywords))
        if reader.peek().kind == "name" and reader.peek(1).text == ":":
            label = reader.take().text
            reader.take()
        items = tuple(_items(reader, keywords))
    except UnclearError as unclear:
        problem = str(unclear)
    return ProgramLine(number_in_file, text, skippable, block, label, items, problem)


def _upper_outside_strings(text: str) -> str:
    pieces = text.split('"')
    return '"'.join(piece if index % 2 else piece.upper() for index, piece in enumerate(pieces))


def _items(reader: ExpressionReader, keywords: frozenset[str]) -> list[Item]:
    items: list[Item] = []
    while reader.peek().kind != "end":
        token = reader.take()
        if token.kind == "letter":
            items.append(_letter(reader, token.text))
        elif token.kind == "name":
            items.extend(_name(reader, token.text, keywords))
        elif token.text == "#":
            reader.position -= 1
            items.append(_assignment(reader))
        else:
            raise UnclearError(f"'{token.text}' does not belong here")
    if sum(isinstance(item, Jump | Structure) for item in items) > 1:
        raise UnclearError("more than one jump or loop in a line")
    return items


def _letter(reader: ExpressionReader, letter: str) -> Item:
    if letter == "R" and (reader.peek().text == "[" or (reader.peek().kind, reader.peek(1).text) == ("number", "=")):
        reader.position -= 1
        return _assignment(reader)
    if reader.peek().kind == "number" and reader.peek(1).text == "=":
        address = letter + reader.take().text
        reader.take()
        return _valued(reader, address)
    if reader.accept("="):
        return _valued(reader, letter)
    token = reader.peek()
    if token.kind == "name" and token.text in COORDINATE_MODES:
        return _valued(reader, letter)
    signed = reader.peek(1) if token.text in ("-", "+") else token
    if signed.kind == "number" or signed.text in ("#", "["):
        return Word(letter, reader.expression(strength=99))
    raise UnclearError(f"the address {letter} has no value")


def _valued(reader: ExpressionReader, address: str) -> Word:
    token = reader.peek()
    if token.kind == "name" and token.text in COORDINATE_MODES:
        reader.take()
        (value,) = reader.arguments()
        return Word(address, value, token.text)
    return Word(address, reader.expression())


def _assignment(reader: ExpressionReader) -> Assignment:
    target = reader.expression(strength=99)
    if not isinstance(target, Variable) or not reader.accept("="):
        raise UnclearError("an assignment was expected")
    return Assignment(target, reader.expression())


def _name(reader: ExpressionReader, name: str, keywords: frozenset[str]) -> list[Item]:
    if name == "DEF":
        return _definition(reader)
    if name in ("PROC", "EXTERN"):
        reader.position = len(reader.tokens)
        return []
    if name in JUMPS:
        return [Jump(name, _target(reader, name), None)]
    if name in STRUCTURES:
        return [_structure(reader, name)]
    if name in VALUE_NAMES and reader.accept("="):
        return [_valued(reader, name)]
    if name == "MCALL":
        if reader.peek().kind != "name":
            return [Call("", None, modal=True)]
        return [Call(reader.peek().text, _raw_arguments(reader, reader.take().text), modal=True)]
    if reader.peek().text in ("=", "[") and name not in keywords:
        reader.position -= 1
        return [_assignment(reader)]
    if name in keywords:
        return [Call(name, None)]
    return [Call(name, _raw_arguments(reader, name))]


def _raw_arguments(reader: ExpressionReader, name: str) -> tuple[str, ...] | None:
    """The arguments of a call as text; calls are skipped, so their values are read only where a cycle is known."""
    if not reader.accept("("):
        return None
    parts, depth = [""], 1
    while True:
        token = reader.take()
        if token.kind == "end":
            raise UnclearError(f"the closing bracket of {name} is missing")
        depth += (token.text in ("(", "[")) - (token.text in (")", "]")) if token.kind == "symbol" else 0
        if depth == 0:
            return tuple(parts) if len(parts) > 1 or parts[0] else ()
        if token == ("symbol", ",") and depth == 1:
            parts.append("")
        else:
            parts[-1] += token.text


def _definition(reader: ExpressionReader) -> list[Item]:
    """DEF REAL _A, _B=5: variables start at zero (or as an empty text) unless they are given a value."""
    type_name = reader.take().text
    if type_name not in TYPES:
        raise UnclearError(f"DEF {type_name} is not a known type")
    if reader.accept("["):
        reader.expression()
        reader.close()
    assignments: list[Item] = []
    while reader.peek().kind == "name":
        name = reader.take().text
        if reader.accept("["):
            raise UnclearError("arrays are not supported")
        start: Expression = "" if type_name == "STRING" else 0.0
        assignments.append(Assignment(Variable(name, None), reader.expression() if reader.accept("=") else start))
        if not reader.accept(","):
            break
    if not assignments:
        raise UnclearError("DEF names no variable")
    return assignments


def _target(reader: ExpressionReader, keyword: str) -> str:
    if keyword == "GOTOS":
        return ""
    token = reader.take()
    if token.kind == "letter" and reader.peek().kind == "number":
        token = Token("name", token.text + reader.take().text.lstrip("0"))
    if token.kind not in ("name", "number", "string"):
        raise UnclearError("a jump without a target")
    return token.text


def _structure(reader: ExpressionReader, keyword: str) -> Item:
    if keyword == "FOR":
        target = reader.expression(strength=99)
        if not isinstance(target, Variable) or not reader.accept("="):
            raise UnclearError("FOR needs a variable and a start value")
        start = reader.expression()
        if reader.take().text != "TO":
            raise UnclearError("FOR without TO")
        return Structure("FOR", reader.expression(), target, start)
    if keyword in ("IF", "WHILE", "UNTIL"):
        condition = reader.expression()
        if keyword == "IF" and reader.peek().text in JUMPS:
            jump = reader.take().text
            return Jump(jump, _target(reader, jump), condition)
        if reader.peek().kind == "name":
            raise UnclearError(f"'{reader.peek().text}' after a condition is not supported")
        return Structure(keyword, condition)
    if keyword in ("CASE", "REPEATB") or (keyword == "REPEAT" and reader.peek().kind == "name"):
        raise UnclearError(f"{keyword} with labels is not supported")
    return Structure(keyword)
